//! Gradient-boosted trees that estimate the probability of a request soon. Each tree grows by its best split, over
//! features in bins.

pub(crate) const FEATURES: usize = 10;

pub(crate) type Row = [f32; FEATURES];

/// The features of an object at some time, and whether it was requested soon after.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) row: Row,
    pub(crate) is_requested: bool,
}

/// The probability in log odds is the sum of `bias` and of one leaf of each tree.
#[derive(Clone, Default)]
pub(crate) struct Model {
    bias: f32,
    trees: Vec<Vec<Node>>,
}

#[derive(Clone, Copy)]
enum Node {
    Leaf(f32),
    /// The child if the feature is at most the number, and the other one.
    Split(usize, f32, [usize; 2]),
}

const TREES: usize = 32;
const LEAVES: usize = 16;
const BINS: usize = 64;
const RATE: f64 = 0.2;
const LEAST_SAMPLES: usize = 20;

/// Added to the curvature by which a leaf's slope is divided, so that small leaves have little weight.
const DAMPING: f64 = 2.0;

impl Model {
    /// Returns the estimated probability.
    pub(crate) fn estimate(&self, row: &Row) -> f64 {
        let odds: f32 = self.trees.iter().map(|tree| leaf(tree, row)).sum();
        probability((self.bias + odds).into())
    }

    /// Returns the model that fits `samples`.
    pub(crate) fn fit(samples: &[Sample]) -> Self {
        let requested = samples.iter().filter(|sample| sample.is_requested).count() as f64;
        let bias = ((requested + 0.5) / (samples.len() as f64 - requested + 0.5)).ln();
        let binned = Binned::new(samples);
        let mut odds = vec![bias; samples.len()];
        let grow = |_| {
            let slope = |(sample, odds): (&Sample, &f64)| {
                let estimate = probability(*odds);
                (f64::from(u8::from(sample.is_requested)) - estimate, estimate * (1.0 - estimate))
            };
            let slopes: Vec<_> = samples.iter().zip(&odds).map(slope).collect();
            let tree = binned.grow(&slopes);
            for (odds, sample) in odds.iter_mut().zip(samples) {
                *odds += f64::from(leaf(&tree, &sample.row));
            }
            tree
        };
        Self { bias: bias as f32, trees: (0..TREES).map(grow).collect() }
    }
}

fn probability(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

fn leaf(tree: &[Node], row: &Row) -> f32 {
    let mut at = 0;
    loop {
        match tree[at] {
            Node::Leaf(value) => return value,
            Node::Split(feature, most, children) => at = children[usize::from(row[feature] > most)],
        }
    }
}

/// Samples with their features as numbers of bins.
struct Binned {
    /// By feature: the largest number of each bin but the last.
    limits: Vec<Vec<f32>>,
    /// By feature and sample.
    bins: Vec<Vec<u8>>,
}

/// A leaf of a growing tree: its samples, its node, and its best split.
struct Growing {
    samples: Vec<u32>,
    node: usize,
    split: Split,
}

#[derive(Clone, Copy, Default)]
struct Split {
    gain: f64,
    feature: usize,
    bin: usize,
}

/// Sums of slopes and curvatures, and the number of samples.
#[derive(Clone, Copy, Default)]
struct Sums {
    slope: f64,
    curvature: f64,
    samples: usize,
}

impl Sums {
    fn add(&mut self, slope: f64, curvature: f64, samples: usize) {
        self.slope += slope;
        self.curvature += curvature;
        self.samples += samples;
    }

    fn without(self, other: Self) -> Self {
        let (slope, curvature) = (self.slope - other.slope, self.curvature - other.curvature);
        Self { slope, curvature, samples: self.samples - other.samples }
    }

    fn score(self) -> f64 {
        self.slope * self.slope / (self.curvature + DAMPING)
    }
}

impl Binned {
    fn new(samples: &[Sample]) -> Self {
        let limits = (0..FEATURES).map(|feature| {
            let mut sorted: Vec<_> = samples.iter().map(|sample| sample.row[feature]).collect();
            sorted.sort_by(f32::total_cmp);
            let mut limits: Vec<_> = (1..BINS).map(|bin| sorted[bin * sorted.len() / BINS]).collect();
            limits.dedup();
            limits
        });
        let limits: Vec<Vec<f32>> = limits.collect();
        let bins = limits.iter().enumerate().map(|(feature, limits)| {
            let bin = |sample: &Sample| limits.partition_point(|&limit| limit < sample.row[feature]) as u8;
            samples.iter().map(bin).collect()
        });
        Self { bins: bins.collect(), limits }
    }

    fn grow(&self, slopes: &[(f64, f64)]) -> Vec<Node> {
        let mut nodes = vec![Node::Leaf(0.0)];
        let all: Vec<_> = (0..slopes.len() as u32).collect();
        let mut leaves = vec![Growing { split: self.best_split(&all, slopes), samples: all, node: 0 }];
        while leaves.len() < LEAVES {
            let gains = leaves.iter().enumerate().max_by(|a, b| a.1.split.gain.total_cmp(&b.1.split.gain));
            let Some((at, _)) = gains.filter(|(_, leaf)| leaf.split.gain > 0.0) else { break };
            let Growing { samples, node, split } = leaves.swap_remove(at);
            let is_left = |&sample: &u32| usize::from(self.bins[split.feature][sample as usize]) <= split.bin;
            let (left, right): (Vec<u32>, Vec<u32>) = samples.iter().partition(|sample| is_left(sample));
            let most = self.limits[split.feature][split.bin];
            nodes[node] = Node::Split(split.feature, most, [nodes.len(), nodes.len() + 1]);
            for samples in [left, right] {
                let split = self.best_split(&samples, slopes);
                leaves.push(Growing { samples, node: nodes.len(), split });
                nodes.push(Node::Leaf(0.0));
            }
        }
        for leaf in leaves {
            let sums = sum(&leaf.samples, slopes);
            nodes[leaf.node] = Node::Leaf((RATE * sums.slope / (sums.curvature + DAMPING)) as f32);
        }
        nodes
    }

    fn best_split(&self, samples: &[u32], slopes: &[(f64, f64)]) -> Split {
        let all = sum(samples, slopes);
        let mut best = Split::default();
        for (feature, limits) in self.limits.iter().enumerate() {
            let mut by_bin = [Sums::default(); BINS];
            for &sample in samples {
                let (slope, curvature) = slopes[sample as usize];
                by_bin[usize::from(self.bins[feature][sample as usize])].add(slope, curvature, 1);
            }
            let mut left = Sums::default();
            for (bin, sums) in by_bin.iter().enumerate().take(limits.len()) {
                left.add(sums.slope, sums.curvature, sums.samples);
                let right = all.without(left);
                let gain = left.score() + right.score() - all.score();
                if left.samples.min(right.samples) >= LEAST_SAMPLES && gain > best.gain {
                    best = Split { gain, feature, bin };
                }
            }
        }
        best
    }
}

fn sum(samples: &[u32], slopes: &[(f64, f64)]) -> Sums {
    let mut sums = Sums::default();
    for &sample in samples {
        let (slope, curvature) = slopes[sample as usize];
        sums.add(slope, curvature, 1);
    }
    sums
}

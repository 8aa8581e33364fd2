//! The results of an experiment: claims with their evidence, figures and tables.

use larder_lab::plot::{Axis, Plot};

use super::statistics::{
    Bound, Claim, ClaimKind, Evidence, FALSE_VERDICTS, Interval, Samples, Side, Verdict, level,
};

/// The source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// A seed report, one of the earlier reports that the experiments repeat: its name, and the sentence that claims it.
    Seed(&'static str, &'static str),
    /// This report.
    Own,
}

/// A claim with the result of its measurements.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub claim: String,
    /// The source of the claim.
    pub source: ClaimSource,
    /// The basis of the verdict.
    pub basis: Basis,
    /// How the lists of requests were fitted to figures of the seed report, if they were: they cannot refute it then.
    pub fit: Option<&'static str>,
    /// Whether it is another figure of a comparison that counts already.
    pub is_aspect: bool,
    /// The size of the effect, in one line, if the claim's values do not give it.
    pub effect: Option<String>,
    /// The measured results, for any verdict.
    pub text: String,
    /// Explanations, each with the outcomes that it explains: it is printed only with these.
    pub explanations: Vec<(Vec<Ruling>, String)>,
}

/// The basis of a claim's verdict.
#[derive(Clone, Debug)]
pub enum Basis {
    /// Measurements.
    Tested(Claim),
    /// The claim follows from the design of the experiment, for this reason. Measurements, if any, only show whether
    /// the design was implemented.
    Given(&'static str, Option<bool>),
}

/// A verdict without its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The claim holds.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The claim depends on conditions.
    Depends,
    /// The claim is not decided.
    Open,
}

impl Ruling {
    /// Returns the ruling of a verdict.
    pub fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::Holds,
            Verdict::Fails => Self::Fails,
            Verdict::Depends(_) => Self::Depends,
            Verdict::Open(_) => Self::Open,
        }
    }
}

/// A finding with its verdict.
#[derive(Clone, Debug)]
pub struct JudgedFinding<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule of the decision.
    pub rule: String,
    /// The size of the effect, in one line: with its unit, threshold, confidence interval and number of lists.
    pub effect: String,
    /// The result of each condition, if there are several.
    pub conditions: String,
}

/// Returns the common level at which each claim of a report is decided.
pub(super) fn common_level<'a>(findings: impl Iterator<Item = &'a Finding>) -> f64 {
    let chances: Vec<f64> = findings.filter_map(Finding::chance).collect();
    level(&chances, FALSE_VERDICTS)
}

impl Finding {
    /// Returns a finding that measurements decide.
    pub(super) fn tested(claim: impl Into<String>, source: ClaimSource, tested: Claim) -> Self {
        Self::new(claim, source, Basis::Tested(tested))
    }

    /// Returns a finding about values that have to be within a bound.
    pub(super) fn sampled(
        claim: impl Into<String>,
        source: ClaimSource,
        kind: ClaimKind,
        (samples, bound): (Samples, Bound),
        unit: (f64, &'static str),
    ) -> Self {
        Self::tested(claim, source, Claim { kind, evidence: Evidence::Sampled(samples, bound), unit })
    }

    /// Returns a finding about counted cases.
    pub(super) fn counted(
        claim: impl Into<String>,
        source: ClaimSource,
        kind: ClaimKind,
        (so, of): (u64, u64),
    ) -> Self {
        let found = Self::tested(
            claim,
            source,
            Claim { kind, evidence: Evidence::Counted { so, of }, unit: (1.0, "cases") },
        );
        if of > 0 { found.with_effect(format!("{so} of {of} cases")) } else { found }
    }

    /// Returns a finding that follows from the design of the experiment.
    pub(super) fn given(
        claim: impl Into<String>,
        source: ClaimSource,
        why: &'static str,
        is_so: Option<bool>,
    ) -> Self {
        Self::new(claim, source, Basis::Given(why, is_so))
    }

    fn new(claim: impl Into<String>, source: ClaimSource, basis: Basis) -> Self {
        let (claim, text, explanations) = (claim.into(), String::new(), Vec::new());
        Self { claim, source, basis, fit: None, is_aspect: false, effect: None, text, explanations }
    }

    /// Says that the lists of requests were fitted, so that the contrary depends on this fit.
    pub(super) fn fitted(self, fit: &'static str) -> Self {
        Self { fit: Some(fit), ..self }
    }

    /// Says that it is another figure of a comparison that counts already.
    pub(super) fn aspect(self) -> Self {
        Self { is_aspect: true, ..self }
    }

    /// Sets the size of the effect.
    pub(super) fn with_effect(self, effect: impl Into<String>) -> Self {
        Self { effect: Some(effect.into()), ..self }
    }

    /// Sets the measured results.
    pub(super) fn saying(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// Adds an explanation of some outcomes.
    pub(super) fn because(mut self, outcomes: &[Ruling], text: impl Into<String>) -> Self {
        self.explanations.push((outcomes.to_vec(), text.into()));
        self
    }

    fn chance(&self) -> Option<f64> {
        match &self.basis {
            Basis::Tested(claim) => claim.chance(),
            Basis::Given(..) => None,
        }
    }

    /// Whether measurements decide it.
    pub fn is_tested(&self) -> bool {
        matches!(self.basis, Basis::Tested(_))
    }

    /// Whether it counts among the tests.
    pub fn is_counted(&self) -> bool {
        self.is_tested() && !self.is_aspect
    }

    /// Decides the finding at a level.
    pub(super) fn decide(&self, level: f64) -> JudgedFinding<'_> {
        let (verdict, rule) = match &self.basis {
            Basis::Tested(claim) => self.of_fit(claim.verdict(level), claim.rule()),
            Basis::Given(why, is_so) => {
                let verdict = match is_so {
                    None => Verdict::Open("not measured".to_owned()),
                    Some(true) => Verdict::Holds,
                    Some(false) => Verdict::Fails,
                };
                (verdict, (*why).to_owned())
            }
        };
        let sides = match &self.basis {
            Basis::Tested(claim) => claim.sides(level).into_iter().map(|side| told_side(side, claim.unit)),
            Basis::Given(..) => {
                return JudgedFinding {
                    finding: self,
                    verdict,
                    rule,
                    effect: self.effect.clone().unwrap_or_default(),
                    conditions: String::new(),
                };
            }
        };
        let sides: Vec<String> = sides.collect();
        let conditions = if sides.len() > 1 { sides.join("; ") } else { String::new() };
        let effect = self.effect.clone().or_else(|| self.told()).unwrap_or_default();
        JudgedFinding { finding: self, verdict, rule, effect, conditions }
    }

    /// Returns a verdict and its rule: lists that are fitted to figures of a report do not refute another claim of it.
    fn of_fit(&self, verdict: Verdict, rule: String) -> (Verdict, String) {
        let Some(fit) = self.fit else { return (verdict, rule) };
        let verdict = match verdict {
            Verdict::Fails => Verdict::Depends("the fit: these lists show the contrary".to_owned()),
            Verdict::Depends(on) => Verdict::Depends(format!("for these lists, {on}")),
            other => other,
        };
        (verdict, format!("{rule} The lists are fitted, so they cannot refute the claim: {fit}"))
    }

    fn told(&self) -> Option<String> {
        let Basis::Tested(Claim { evidence: Evidence::Sampled(samples, bound), unit, .. }) = &self.basis
        else {
            return None;
        };
        Some(told_of(&samples.overall(*bound)?, *bound, *unit))
    }
}

impl JudgedFinding<'_> {
    /// Returns the explanations of the verdict.
    pub fn explanations(&self) -> impl Iterator<Item = &str> {
        let outcome = Ruling::of(&self.verdict);
        let fit = self.finding.explanations.iter().filter(move |(outcomes, _)| outcomes.contains(&outcome));
        fit.map(|(_, text)| text.as_str())
    }
}

fn told_side((name, interval, side): (&str, Interval, Side), (scale, unit): (f64, &str)) -> String {
    let side = match side {
        Side::For => "holds",
        Side::Against => "contrary",
        Side::Unsure => "not decided",
    };
    // A unit is named only once, in the effect; a percent sign is short enough to repeat.
    let unit = if unit == "%" { "%" } else { "" };
    format!("{name}: {:+.2}{unit} ({side})", interval.mean * scale)
}

/// Returns an interval as text, with its distance to a threshold.
fn told_of(interval: &Interval, bound: Bound, unit: (f64, &str)) -> String {
    let (word, threshold) = match bound {
        Bound::Above(threshold) => ("above", threshold),
        Bound::Below(threshold) => ("below", threshold),
    };
    let told = told(interval, unit.0, unit.1);
    let threshold = format!("{word} {:.2} was claimed", threshold * unit.0).replace(".00 ", " ");
    let effect = interval.effect(bound.threshold());
    let effect = effect
        .map_or_else(String::new, |effect| format!(", {effect:+.1} standard deviations from the threshold"));
    let told = told.strip_suffix(')').unwrap_or(&told).to_owned();
    format!("{told}; {threshold}{effect})")
}

/// Returns an interval as text: `+3.10 points (95% between +2.00 and +4.20, 5 lists)`.
pub(super) fn told(interval: &Interval, scale: f64, unit: &str) -> String {
    let (mean, count) = (interval.mean * scale, interval.count);
    let Some(margin) = interval.margin() else { return format!("{mean:+.2} {unit} (one list)") };
    let (low, high) = (mean - margin * scale, mean + margin * scale);
    format!("{mean:+.2} {unit} (95% between {low:+.2} and {high:+.2}, {count} lists)")
}

/// Returns the same for a value that is no difference.
pub(super) fn plain(interval: &Interval, scale: f64, unit: &str) -> String {
    told(interval, scale, unit).replace('+', "")
}

/// A picture with its numbers.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A short name for files.
    pub name: String,
    /// The picture.
    pub plot: Plot,
    /// The message of the picture.
    pub caption: String,
    /// Its numbers.
    pub data: Grid,
}

/// The policies in pictures, in the order of the colours.
const POLICIES: [&str; 8] = ["lru", "lfu", "fifo", "rand", "maxs", "tinylfu", "gds", "gdsf"];

/// Returns the number of a policy's colour, which is the same in all pictures.
pub(super) fn colour(policy: &str) -> usize {
    POLICIES.iter().position(|known| *known == policy).unwrap_or(POLICIES.len() - 1)
}

/// A mean in a picture: its labels in the table, its place on the first axis, and its value.
pub(super) type PlacedMean = (Vec<String>, f64, Interval);

/// A picture of means with their 95% confidence intervals.
pub(super) struct MeanPlot {
    plot: Plot,
    data: Grid,
    decimals: usize,
}

impl MeanPlot {
    /// Returns a picture without lines. `labels` are the names of a mean's labels; `counted` names its values, and it is
    /// written with so many `decimals`.
    pub(super) fn new(
        title: &str,
        (x, y): (Axis, Axis),
        labels: &[&str],
        (counted, decimals): (&str, usize),
    ) -> Self {
        let columns = [labels, &["mean", "95% to either side", counted]].concat();
        Self { plot: Plot::new(title, x, y), data: Grid::new(title, &columns), decimals }
    }

    /// Adds a line of means, in the colour of a family and the style of a member, if it has one.
    pub(super) fn line(
        mut self,
        member: Option<(usize, usize)>,
        name: &str,
        means: impl IntoIterator<Item = PlacedMean>,
    ) -> Self {
        let (mut points, mut errors) = (Vec::new(), Vec::new());
        for (labels, at, interval) in means {
            points.push((at, interval.mean));
            errors.extend(interval.margin().map(|margin| (at, interval.mean, margin)));
            let decimals = self.decimals;
            let mean = format!("{:.decimals$}", interval.mean);
            let numbers = [mean, interval.margin_cell(decimals), interval.count.to_string()];
            self.data.row(labels.into_iter().chain(numbers));
        }
        let plot = match member {
            Some(member) => self.plot.member(member, name, points),
            None => self.plot.line(name, points),
        };
        Self { plot: plot.with_errors(errors), ..self }
    }

    pub(super) fn figure(self, name: &str, caption: String) -> Figure {
        Figure { name: name.to_owned(), plot: self.plot, caption, data: self.data }
    }
}

/// A table of cells with named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// The title.
    pub title: String,
    /// The columns' names, with units.
    pub columns: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table: its name, and the cell of an item.
pub(super) type Column<'f, T> = (&'f str, &'f dyn Fn(&T) -> String);

impl Grid {
    /// Returns a table without rows.
    pub(super) fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Returns a table with a row for each item.
    pub(super) fn of<T>(title: &str, columns: &[Column<'_, T>], items: impl IntoIterator<Item = T>) -> Self {
        let mut grid = Self::new(title, &columns.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for item in items {
            grid.row(columns.iter().map(|(_, cell)| cell(&item)));
        }
        grid
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns comma-separated values.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            // Writing rows of any length into memory cannot fail.
            let _ = writer.write_record(row);
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }
}

/// All findings of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The objects and means of the measurements, a paragraph each.
    pub setup: Vec<String>,
    /// Claims and verdicts.
    pub findings: Vec<Finding>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Tables in addition to the pictures.
    pub tables: Vec<Grid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(values: &[f64], bound: Bound) -> Finding {
        let mut samples = Samples::default();
        samples.add("10%", (0..).zip(values.iter().copied()));
        Finding::sampled("it is", ClaimSource::Own, ClaimKind::OnAverage, (samples, bound), (100.0, "points"))
    }

    #[test]
    fn intervals_are_told_in_their_unit() {
        let interval = Interval::of(&[0.01, 0.02, 0.03]).unwrap();
        assert_eq!(told(&interval, 100.0, "points"), "+2.00 points (95% between -0.48 and +4.48, 3 lists)");
        assert_eq!(told(&Interval::of(&[1.5]).unwrap(), 1.0, "ms"), "+1.50 ms (one list)");
    }

    #[test]
    fn an_effect_is_told_as_its_distance_to_the_threshold() {
        let effect = finding(&[1.09, 1.10, 1.11], Bound::Below(1.1)).decide(0.05).effect;
        assert!(effect.starts_with("+110.00 points (95% between "), "{effect}");
        assert!(
            effect.ends_with("; below 110 was claimed, +0.0 standard deviations from the threshold)"),
            "{effect}"
        );
        let one = finding(&[1.0], Bound::Above(0.5)).decide(0.05).effect;
        assert_eq!(one, "+100.00 points (one list; above 50 was claimed)");
    }

    #[test]
    fn an_explanation_is_printed_with_its_verdict_only() {
        let finding = finding(&[1.0, 1.1, 1.2], Bound::Above(0.0))
            .because(&[Ruling::Holds], "why it holds")
            .because(&[Ruling::Fails, Ruling::Open], "why not");
        assert_eq!(finding.decide(0.05).explanations().collect::<Vec<_>>(), ["why it holds"]);
        assert_eq!(finding.decide(1e-9).explanations().collect::<Vec<_>>(), ["why not"]);
    }

    #[test]
    fn a_given_finding_takes_no_part_in_the_correction() {
        let given = Finding::given("it is", ClaimSource::Own, "it was made so", Some(true));
        assert_eq!((given.decide(0.0).verdict, given.is_counted()), (Verdict::Holds, false));
        let tested = finding(&[1.0, 1.1, 1.2], Bound::Above(0.0));
        assert_eq!(common_level([&given, &tested].into_iter()), FALSE_VERDICTS);
    }

    #[test]
    fn fitted_lists_confirm_a_claim_and_do_not_refute_it() {
        let decide = |values: &[f64]| {
            finding(values, Bound::Above(0.0))
                .fitted("the distance of visits is fitted.")
                .decide(0.05)
                .verdict
        };
        assert_eq!(decide(&[1.0, 1.1, 1.2]), Verdict::Holds);
        let contrary = decide(&[-1.0, -1.1, -1.2]);
        assert!(matches!(&contrary, Verdict::Depends(on) if on.starts_with("the fit")), "{contrary:?}");
    }

    #[test]
    fn another_figure_of_a_comparison_is_tested_and_not_counted() {
        let aspect = finding(&[1.0, 1.1, 1.2], Bound::Above(0.0)).aspect();
        assert_eq!((aspect.is_tested(), aspect.is_counted()), (true, false));
    }

    #[test]
    fn each_policy_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<usize> = POLICIES.map(colour).into();
        assert_eq!(colours.len(), POLICIES.len());
    }

    #[test]
    fn a_grid_is_written_as_values_between_commas() {
        let mut grid = Grid::new("t", &["policy", "ratio, of hits"]);
        grid.row(["lru".to_owned(), "0.5".to_owned()]);
        assert_eq!(grid.csv(), "policy,\"ratio, of hits\"\nlru,0.5\n");
    }
}

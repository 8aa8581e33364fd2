//! The model's rates as bars.

/// Cores for each character of a bar.
const SCALE: f64 = 2.0;

/// The rates of some cores over the rate of one.
pub(super) struct Bars {
    pub(super) requests: String,
    pub(super) cores: usize,
    pub(super) hot: f64,
    pub(super) plain: f64,
}

impl Bars {
    /// Returns two lines, with hot entries and without, in which a dot stands for each two cores that are lost.
    pub(super) fn lines(&self) -> [String; 2] {
        let label = format!("{}, {} cores", self.requests, self.cores);
        let bar = |rate: f64| {
            let (all, own) = ((self.cores as f64 / SCALE) as usize, (rate / SCALE).round() as usize);
            format!("{}{} {rate:.0}", "#".repeat(own.min(all)), ".".repeat(all.saturating_sub(own)))
        };
        [
            format!("{label:<20}  hot entries  {}", bar(self.hot)),
            format!("{:<20}  none         {}", "", bar(self.plain)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Bars;

    #[test]
    fn bars_are_as_long_as_their_rates() {
        let bars = Bars { requests: "Zipf 1.3".to_owned(), cores: 8, hot: 8.1, plain: 3.9 };
        assert_eq!(
            bars.lines(),
            ["Zipf 1.3, 8 cores     hot entries  #### 8", "                      none         ##.. 4"]
        );
    }
}

//! Plots of numbers: one self-contained SVG, for separate viewing or embedding in a page.
//!
//! Text and axes take the colour of their surroundings, and series have colours that are visible on light and dark
//! backgrounds. The file's size depends on its pixels, not on the number of points.

mod axis;

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::html::escape;
pub use axis::{Axis, Unit};

/// In pixels: the whole picture, and the legend at its right.
const SIZE: (u32, u32) = (900, 440);
const LEGEND: u32 = 150;
const LINE_HEIGHT: i32 = 17;

/// The edge of the squares that collect scattered points, in pixels.
const DOT: i32 = 2;

/// The diameter of a mark, in pixels.
const MARK: i32 = 7;

/// The maximum number of points of a line that are shown as discs, and the diameter of the discs in pixels.
const FEW: usize = 16;
const SPOT: i32 = 5;

/// Half the width of the ends of an error bar, in pixels.
const WHISKER: i32 = 3;

/// A placeholder for the colour of the surrounding text until the picture is complete.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_WRITTEN: &str = "#010203";

/// Colours that most people can distinguish, on light and dark backgrounds; further series are dashed.
const COLOURS: [&str; 8] =
    ["#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#3D7FD9", "#9B6FD0", "#8A8A8A"];
const DASHES: [&str; 4] = ["none", "7 3", "2 2", "9 3 2 3"];

/// The shape of a series.
#[derive(Clone, Debug)]
enum Shape {
    Line(Vec<(f64, f64)>),
    Dots(Vec<(f64, f64)>),
    Marks(Vec<(f64, f64)>),
    /// The start, the end, and the height.
    Bars(Vec<(f64, f64, f64)>),
}

/// Named series between two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

/// A named series.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    shape: Shape,
    pen: Pen,
    /// Error bars: the position, and the lower and the upper height.
    whiskers: Vec<(f64, f64, f64)>,
}

impl Plot {
    /// An empty plot.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new() }
    }

    /// Adds a line through `points`.
    pub fn line(self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.with(name, Shape::Line(points))
    }

    /// Adds a line to a family: each family has a colour, and its members have different dashes.
    pub fn member(mut self, (family, member): (usize, usize), name: &str, points: Vec<(f64, f64)>) -> Self {
        let pen = Pen { colour: COLOURS[family % COLOURS.len()], dashes: DASHES[member % DASHES.len()] };
        self.series.push(Series::new(name, Shape::Line(points), pen));
        self
    }

    fn with(mut self, name: &str, shape: Shape) -> Self {
        let pen = Pen::new(self.series.len());
        self.series.push(Series::new(name, shape, pen));
        self
    }

    /// Adds error bars to the last series: position, mean, and the half-width of the interval.
    pub fn with_errors(mut self, errors: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        if let Some(last) = self.series.last_mut() {
            last.whiskers =
                errors.into_iter().map(|(x, mean, margin)| (x, mean - margin, mean + margin)).collect();
        }
        self
    }

    /// Adds a line that keeps each point's height until the next, such as a cumulative share.
    pub fn steps(self, name: &str, points: &[(f64, f64)]) -> Self {
        let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
        let corners = corners.chain(points.last().copied()).collect();
        self.line(name, corners)
    }

    /// Adds dots at any number of `points`: those in the same spot are one dot.
    pub fn dots(self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.with(name, Shape::Dots(points))
    }

    /// Adds a mark at each of a few `points`.
    pub fn marks(self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.with(name, Shape::Marks(points))
    }

    /// Adds the same marks in the colour of a family's lines.
    pub fn member_marks(mut self, family: usize, name: &str, points: Vec<(f64, f64)>) -> Self {
        let pen = Pen { colour: COLOURS[family % COLOURS.len()], dashes: DASHES[0] };
        self.series.push(Series::new(name, Shape::Marks(points), pen));
        self
    }

    /// Adds bars, each with start, end and height; on a logarithmic height axis they stand on its lower end.
    pub fn bars(self, name: &str, bars: Vec<(f64, f64, f64)>) -> Self {
        self.with(name, Shape::Bars(bars))
    }

    /// Returns the picture as a file of its own, with a background: a viewer's background is often white even if its user
    /// prefers dark colours.
    pub fn file(&self) -> String {
        let ground = format!(
            "<style>.ground{{fill:#fdfdfb}}@media(prefers-color-scheme:dark){{.ground{{fill:#15191c}}}}</style>\n\
             <rect class=\"ground\" width=\"{}\" height=\"{}\"/>",
            SIZE.0, SIZE.1
        );
        let svg = self.svg();
        let (head, body) = svg.split_at(svg.find(">\n").map_or(0, |end| end + 2));
        format!("{head}{ground}{body}")
    }

    /// Returns the picture: one `<svg>` element for a page, whose background it has.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let drawn = {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&root).and_then(|series| root.present().map(|()| series))
        };
        // Drawing can fail only for files, and this is a string.
        let series = drawn.unwrap_or_default();
        finish(&svg, &self.title, &series, &self.series)
    }

    /// Draws axes and names, and returns the series as SVG elements.
    fn draw(&self, root: &Area) -> Result<String, Failure> {
        let (body, legend) = root.split_horizontally((SIZE.0 - LEGEND) as i32);
        let (x, y) = self.spans();
        let floor = y.start;
        let breaks = (self.x.is_broken(&x), self.y.is_broken(&y), (x.start, y.start));
        let mut chart = ChartBuilder::on(&body)
            .caption(&self.title, ("sans-serif", 16).into_font().color(&INK))
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(self.x.coordinates(x.clone()), self.y.coordinates(y.clone()))?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(INK.mix(0.2))
            .light_line_style(INK.mix(0.0))
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_labels(9)
            .y_labels(9)
            .x_label_formatter(&|&value| self.x.label(value, &x))
            .y_label_formatter(&|&value| self.y.label(value, &y))
            .draw()?;
        let place = |x: f64, y: f64| {
            let shown = self.x.shows(x) && self.y.shows(y);
            shown.then(|| chart.backend_coord(&(x, y)))
        };
        let mut elements = String::new();
        for (at, Series { name, shape, pen, whiskers }) in self.series.iter().enumerate() {
            elements += &element(shape, pen, floor, &place);
            elements += &whisker_path(whiskers, floor, pen, &place);
            name_series(&legend, at, name)?;
        }
        elements += &break_marks(breaks, &place);
        Ok(elements)
    }

    /// Returns the ranges of both axes.
    fn spans(&self) -> (Range<f64>, Range<f64>) {
        let (x, y) = (self.x.span(self.xs()), self.y.span(self.ys()));
        match self.series.iter().all(|series| series.whiskers.is_empty()) {
            true => (x, y),
            false => (self.x.with_room(x), self.y.with_room(y)),
        }
    }

    fn xs(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| match &series.shape {
            Shape::Line(points) | Shape::Dots(points) | Shape::Marks(points) => {
                points.iter().map(|point| point.0).collect()
            }
            Shape::Bars(bars) => bars.iter().flat_map(|bar| [bar.0, bar.1]).collect::<Vec<_>>(),
        })
    }

    fn ys(&self) -> impl Iterator<Item = f64> {
        let is_linear = self.y.is_even();
        self.series
            .iter()
            .flat_map(move |series| match &series.shape {
                Shape::Line(points) | Shape::Dots(points) | Shape::Marks(points) => {
                    points.iter().map(|point| point.1).collect()
                }
                Shape::Bars(bars) => {
                    bars.iter().map(|bar| bar.2).chain(is_linear.then_some(0.0)).collect::<Vec<_>>()
                }
            })
            .chain(
                self.series.iter().flat_map(|series| series.whiskers.iter().flat_map(|bar| [bar.1, bar.2])),
            )
    }
}

impl Series {
    fn new(name: &str, shape: Shape, pen: Pen) -> Self {
        Self { name: name.into(), shape, pen, whiskers: Vec::new() }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;

/// The style that distinguishes a series from the others.
#[derive(Clone, Copy, Debug)]
struct Pen {
    colour: &'static str,
    dashes: &'static str,
}

impl Pen {
    /// Returns the style of the series at a position in the list.
    fn new(at: usize) -> Self {
        Self { colour: COLOURS[at % COLOURS.len()], dashes: DASHES[at / COLOURS.len() % DASHES.len()] }
    }
}

/// Writes a series' name beside the plot; [`finish`] adds its colour.
fn name_series(legend: &Area, at: usize, name: &str) -> Result<(), Failure> {
    let style = ("sans-serif", 12).into_font().color(&INK);
    legend.draw(&Text::new(name.to_owned(), (26, legend_line(at)), style))
}

fn legend_line(at: usize) -> i32 {
    34 + at as i32 * LINE_HEIGHT
}

/// Returns a series as SVG elements: a path, and the stroke before its name in the legend.
fn element(shape: &Shape, pen: &Pen, floor: f64, place: &impl Fn(f64, f64) -> Option<(i32, i32)>) -> String {
    let Pen { colour, dashes } = pen;
    match shape {
        Shape::Line(points) => {
            let places = points.iter().filter_map(|&(x, y)| place(x, y));
            let path = line_path(places.clone());
            let line = format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.7\" \
                 stroke-dasharray=\"{dashes}\" stroke-linejoin=\"round\"/>\n"
            );
            if points.len() <= FEW { line + &discs(places, colour, SPOT) } else { line }
        }
        Shape::Dots(points) => {
            let places = points.iter().filter_map(|&(x, y)| place(x, y)).collect();
            let path = dots_path(places);
            format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{DOT}\"/>\n")
        }
        Shape::Marks(points) => {
            let places = points.iter().filter_map(|&(x, y)| place(x, y));
            discs(places, colour, MARK)
        }
        Shape::Bars(bars) => {
            let corners = bars
                .iter()
                .filter_map(|&(from, to, height)| Some((place(from, floor)?, place(to, height.max(floor))?)));
            let mut path = String::new();
            for ((left, bottom), (right, top)) in corners {
                // Writing to a string cannot fail.
                let _ = write!(path, "M{left} {bottom}V{top}H{}V{bottom}z", (right - 1).max(left + 1));
            }
            format!("<path d=\"{path}\" fill=\"{colour}\" fill-opacity=\"0.75\"/>\n")
        }
    }
}

/// Returns the path of error bars: a vertical stroke with a short one at each end. On a logarithmic axis the part below
/// the lower end is cut.
fn whisker_path(
    whiskers: &[(f64, f64, f64)],
    floor: f64,
    pen: &Pen,
    place: &impl Fn(f64, f64) -> Option<(i32, i32)>,
) -> String {
    let mut path = String::new();
    for &(at, low, high) in whiskers {
        let (Some((x, bottom)), Some((_, top))) = (place(at, low.max(floor)), place(at, high)) else {
            continue;
        };
        let (left, width) = (x - WHISKER, 2 * WHISKER);
        // Writing to a string cannot fail.
        let _ = write!(path, "M{left} {bottom}h{width}M{x} {bottom}V{top}M{left} {top}h{width}");
    }
    match path.is_empty() {
        true => path,
        false => format!(
            "<path class=\"error\" d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1\"/>\n",
            pen.colour
        ),
    }
}

/// Returns two strokes across each axis that does not begin at 0.
fn break_marks(
    (x, y, (left, bottom)): (bool, bool, (f64, f64)),
    place: &impl Fn(f64, f64) -> Option<(i32, i32)>,
) -> String {
    let Some((left, bottom)) = place(left, bottom) else { return String::new() };
    let across = y.then(|| format!("M{} {}l8 -4m-8 8l8 -4", left - 4, bottom - 8));
    let along = x.then(|| format!("M{} {}l4 -8m0 8l4 -8", left + 8, bottom + 4));
    let path: String = across.into_iter().chain(along).collect();
    match path.is_empty() {
        true => path,
        false => format!(
            "<path class=\"broken\" d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"><title>this axis does \
             not begin at 0</title></path>\n"
        ),
    }
}

/// Returns discs, which are strokes of length 0 with round ends.
fn discs(places: impl Iterator<Item = (i32, i32)>, colour: &str, diameter: i32) -> String {
    let path: String = places.map(|(x, y)| format!("M{x} {y}h0")).collect();
    format!(
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{diameter}\" stroke-linecap=\"round\"/>\n"
    )
}

fn line_path(places: impl Iterator<Item = (i32, i32)>) -> String {
    let mut path = String::new();
    let mut last = None;
    for (x, y) in places {
        if last == Some((x, y)) {
            continue;
        }
        let step = if last.is_none() { 'M' } else { 'L' };
        let _ = write!(path, "{step}{x} {y}");
        last = Some((x, y));
    }
    path
}

/// Returns squares of [`DOT`] pixels, with neighbours joined to one stroke.
fn dots_path(places: Vec<(i32, i32)>) -> String {
    let mut cells: Vec<_> = places.into_iter().map(|(x, y)| (y / DOT, x / DOT)).collect();
    cells.sort_unstable();
    cells.dedup();
    let mut path = String::new();
    for run in cells.chunk_by(|one, next| (one.0, one.1 + 1) == *next) {
        let (y, x) = run[0];
        let _ = write!(path, "M{} {}h{}", x * DOT, y * DOT, run.len() as i32 * DOT);
    }
    path
}

/// Joins the library's output with the series, and takes size and text colour from the surroundings.
fn finish(svg: &str, title: &str, drawn_series: &str, series: &[Series]) -> String {
    let (width, height) = SIZE;
    let begun = svg.find("<svg").and_then(|at| svg[at..].find('>').map(|end| at + end + 1)).unwrap_or(0);
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    let drawn = svg[begun..end].replace(INK_WRITTEN, "currentColor");
    let strokes: String = series.iter().enumerate().map(|(at, series)| legend_stroke(at, series)).collect();
    format!(
        "<svg class=\"plot\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" \
         style=\"max-width:{width}px;width:100%;height:auto\" xmlns=\"http://www.w3.org/2000/svg\">\n\
         <style>.plot{{color:#222}}@media(prefers-color-scheme:dark){{.plot{{color:#ddd}}}}</style>{}\n\
         {drawn_series}{strokes}</svg>\n",
        escape(title),
        drawn.trim_end(),
    )
}

fn legend_stroke(at: usize, Series { shape, pen: Pen { colour, dashes }, .. }: &Series) -> String {
    let (x, y) = ((SIZE.0 - LEGEND) as i32, legend_line(at) + 6);
    if matches!(shape, Shape::Marks(_)) {
        return discs([(x + 10, y)].into_iter(), colour, MARK);
    }
    format!(
        "<path d=\"M{x} {y}h20\" stroke=\"{colour}\" stroke-width=\"3\" stroke-dasharray=\"{dashes}\"/>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> (Axis, Axis) {
        (Axis::log("cache size", Unit::Bytes), Axis::linear("miss ratio", Unit::Share))
    }

    #[test]
    fn a_picture_names_its_axes_and_series() {
        let (x, y) = axes();
        let svg = Plot::new("a < b", x, y)
            .line("lru", vec![(1024.0, 0.9), (1_048_576.0, 0.1)])
            .steps("fifo", &[(1024.0, 0.95), (4096.0, 0.5)])
            .bars("share", vec![(1024.0, 2048.0, 0.3)])
            .marks("measured", vec![(4096.0, 0.4)])
            .svg();
        for text in [
            "aria-label=\"a &lt; b\"",
            "cache size",
            "miss ratio",
            "lru",
            "fifo",
            "share",
            "measured",
            "%",
            "B\n",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(!svg.contains(INK_WRITTEN) && svg.contains("currentColor"));
    }

    #[test]
    fn error_bars_and_broken_axes_are_drawn() {
        let axis = || Axis::linear("a", Unit::Number);
        let line = |low, high| Plot::new("t", axis(), axis()).line("l", vec![(0.0, low), (1.0, high)]);
        assert!(!line(1.0, 2.0).svg().contains("class=\"broken\""));
        assert!(line(9.0, 9.5).svg().contains("class=\"broken\""));
        let errors = line(5.0, 9.0).with_errors([(0.0, 5.0, 1.0), (1.0, 9.0, 2.0)]).svg();
        assert!(errors.contains("class=\"error\""));
        // The axis has room for the error bars.
        let heights: Vec<f64> = line(5.0, 9.0).with_errors([(1.0, 9.0, 2.0)]).ys().collect();
        assert!(heights.contains(&11.0), "{heights:?}");
    }

    #[test]
    fn a_picture_in_a_file_of_its_own_has_a_background() {
        let (x, y) = axes();
        let plot = Plot::new("t", x, y).line("lru", vec![(1024.0, 0.9), (4096.0, 0.1)]);
        let (file, part) = (plot.file(), plot.svg());
        let ground = file.find("class=\"ground\"").expect("a background");
        assert!(file.starts_with("<svg ") && ground < file.find("<text").expect("text"));
        assert!(file.contains("dark){.ground{fill:#15191c}}") && !part.contains("ground"));
    }

    #[test]
    fn error_bars_stay_inside_the_frame() {
        let axis = || Axis::linear("a", Unit::Number);
        let plot = Plot::new("t", axis(), axis()).line("l", vec![(0.1, 5.0), (0.8, 9.0)]);
        let (x, y) = plot.with_errors([(0.1, 5.0, 6.0), (0.8, 9.0, 2.0)]).spans();
        assert!(x.end > 0.8 && y.end > 11.0 && y.start < -1.0, "{x:?} {y:?}");
    }

    #[test]
    fn a_million_dots_are_no_larger_than_their_pixels() {
        let dots = (0..1_000_000).map(|at| (f64::from(at), f64::from(at % 1000))).collect();
        let (x, y) = (Axis::linear("request", Unit::Count), Axis::linear("object", Unit::Count));
        let svg = Plot::new("pattern", x, y).dots("requests", dots).svg();
        assert!(svg.len() < 100_000, "{} bytes", svg.len());
    }

    #[test]
    fn a_plot_omits_points_that_cannot_be_shown() {
        for points in [vec![], vec![(0.0, 0.5)], vec![(f64::NAN, f64::INFINITY)], vec![(7.0, 0.0)]] {
            let (x, y) = axes();
            let svg = Plot::new("odd", x, y).line("lru", points.clone()).dots("same", points).svg();
            assert!(svg.contains("</svg>") && !svg.contains("NaN"));
        }
    }

    #[test]
    fn neighbouring_dots_are_one_stroke() {
        assert_eq!(dots_path(vec![(2, 4), (0, 4), (1, 5), (8, 4), (0, 8)]), "M0 4h4M8 4h2M0 8h2");
    }
}

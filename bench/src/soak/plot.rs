//! Draws the samples as small graphs of one width, one below the other in two columns, as SVG.

use std::fmt::Write;

use super::samples::{MEASURES, Series};

/// One graph, with its title and its axis, in pixels.
const PANEL: (f64, f64) = (420.0, 150.0);

/// What stays free of the line: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (14.0, 28.0, 14.0, 22.0);

/// The graphs of all measures. Every one begins at 0.
pub fn svg(series: &Series) -> String {
    let rows = MEASURES.len().div_ceil(2) as f64;
    let (width, height) = (PANEL.0 * 2.0, PANEL.1 * rows);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (index, measure) in MEASURES.iter().enumerate() {
        let (x, y) = ((index % 2) as f64 * PANEL.0, (index / 2) as f64 * PANEL.1);
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">{}</g>", panel(measure.name, &series.of(index)));
    }
    text + "</svg>\n"
}

fn panel(name: &str, values: &[(f64, f64)]) -> String {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let end = values.last().map_or(1.0, |(at, _)| *at);
    let (left, top, right, bottom) = (MARGIN.0, MARGIN.1, PANEL.0 - MARGIN.2, PANEL.1 - MARGIN.3);
    let across = |at: f64| left + (right - left) * at / end;
    let up = |value: f64| bottom - (bottom - top) * value / if most > 0.0 { most } else { 1.0 };
    let points: Vec<_> = values.iter().map(|(at, value)| format!("{:.1},{:.1}", across(*at), up(*value))).collect();
    let middle = top - 10.0;
    let below = bottom + 14.0;
    format!(
        "<text x=\"{left}\" y=\"{middle}\" fill=\"#222\">{name}</text>\
         <text x=\"{right}\" y=\"{middle}\" fill=\"#777\" text-anchor=\"end\">at most {}</text>\
         <path d=\"M{left} {bottom}H{right}\" stroke=\"#bbb\" fill=\"none\"/>\
         <text x=\"{left}\" y=\"{below}\" fill=\"#777\">0</text>\
         <text x=\"{right}\" y=\"{below}\" fill=\"#777\" text-anchor=\"end\">{:.0} min</text>\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"1.2\"/>",
        short(most),
        end / 60.0,
        points.join(" ")
    )
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_the_left_edge_to_the_right_one() {
        let drawn = panel("lag", &[(0.0, 0.0), (60.0, 5.0)]);
        assert!(drawn.contains("points=\"14.0,128.0 406.0,28.0\""), "{drawn}");
        assert!(drawn.contains(">1 min<") && drawn.contains(">at most 5.0<"), "{drawn}");
    }
}

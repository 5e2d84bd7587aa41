//! Tables for people: aligned columns without borders, as many rows as a screen takes.

use anstyle::Style;
use comfy_table::{Cell, CellAlignment, Row, Table as Grid, presets};

const HEADING: Style = Style::new().bold();

/// The most rows that are shown: the tables of one command fit on a screen, and programs have `--json`.
const ROWS: usize = 20;

/// A table under construction.
#[derive(Debug)]
pub struct Table {
    grid: Grid,
    columns: usize,
    left_out: usize,
}

/// One cell: text stands left, numbers right.
#[derive(Debug)]
pub enum Show {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
    /// Nothing to show.
    Nothing,
}

impl<T: Into<Show>> From<Option<T>> for Show {
    fn from(cell: Option<T>) -> Show {
        cell.map_or(Show::Nothing, Into::into)
    }
}

impl From<String> for Show {
    fn from(text: String) -> Show {
        Show::Text(text)
    }
}

impl From<u64> for Show {
    fn from(number: u64) -> Show {
        Show::Number(number)
    }
}

impl From<u32> for Show {
    fn from(number: u32) -> Show {
        Show::Number(number.into())
    }
}

impl From<u16> for Show {
    fn from(number: u16) -> Show {
        Show::Number(number.into())
    }
}

impl Table {
    /// A table whose columns are headed so.
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_header(heading);
        Self { grid, columns: N, left_out: 0 }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Show; N]) {
        assert_eq!(N, self.columns, "a row has a cell for every column");
        if self.grid.row_count() == ROWS {
            self.left_out += 1;
            return;
        }
        let cells = cells.into_iter().enumerate().map(|(at, cell)| {
            let (text, alignment) = match cell {
                // Names of others must not control the terminal.
                Show::Text(text) => (crate::text::shown(&text), CellAlignment::Left),
                Show::Number(number) => (crate::text::count(number), CellAlignment::Right),
                Show::Nothing => ("-".into(), CellAlignment::Left),
            };
            if alignment == CellAlignment::Right
                && let Some(column) = self.grid.column_mut(at)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
            Cell::new(text)
        });
        let row: Row = cells.collect::<Vec<_>>().into();
        self.grid.add_row(row);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// The finished text, each line ended.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (at, line) in self.grid.lines().enumerate() {
            let line = line.trim_end();
            let line = line.strip_prefix(' ').unwrap_or(line);
            text += &if at == 0 { format!("{HEADING}{line}{HEADING:#}\n") } else { format!("{line}\n") };
        }
        if self.left_out > 0 {
            text += &format!("… and {} more, all with --json\n", crate::text::count(self.left_out as u64));
        }
        text
    }
}

/// What there is to say of one thing: a line for each fact, the values aligned.
pub fn facts(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line =
        |(name, value): &(&str, String)| format!("{HEADING}{name:width$}{HEADING:#}  {}\n", crate::text::shown(value));
    lines.iter().map(line).collect()
}

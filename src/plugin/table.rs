//! Tables like kubectl's: upper-case titles, three blanks between columns, the last column cut to the terminal.

use super::text::{columns, cut};

const GAP: &str = "   ";
/// The last column is never cut to fewer columns than this.
const LEAST: usize = 12;

/// A table whose rows have a cell for each title.
pub(super) struct Table {
    titles: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(titles: Vec<&'static str>) -> Self {
        Self { titles, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, behind `indent`, in at most `width` columns where there is a width.
    pub(super) fn render(&self, headers: bool, indent: &str, width: Option<usize>) -> String {
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let rows: Vec<&Vec<String>> = headers.then_some(&titles).into_iter().chain(&self.rows).collect();
        let widths: Vec<usize> = (0..titles.len())
            .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell)).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in rows {
            let mut line = indent.to_owned();
            for (column, (cell, cell_width)) in row.iter().zip(&widths).enumerate() {
                if column + 1 == titles.len() {
                    let left = width.map_or(usize::MAX, |width| width.saturating_sub(columns(&line)).max(LEAST));
                    line.push_str(&cut(cell, left));
                } else {
                    line.push_str(cell);
                    line.push_str(&" ".repeat(cell_width.saturating_sub(columns(cell))));
                    line.push_str(GAP);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

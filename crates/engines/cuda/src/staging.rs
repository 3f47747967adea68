//! What a device must know of a step, in one upload.
//!
//! The upload has the new tokens of all rows, their positions, which table each has, the tables, which
//! rows distributions are wanted of, and how tokens are drawn from those. Where its parts lie follows from
//! the step's shape alone: a recorded step finds them where it found them before.
//!
//! A step in which every sequence has one row is recorded. So that few steps differ, it is filled up
//! with padding to the next of some numbers of rows, and its longest context is rounded up.

#[cfg(test)]
mod tests;

use contract::TokenId;

use crate::ops::{ALIGNMENT, DrawRow, Ops, OpsError, PADDING, PAGE_TOKENS, RecordKey, Rows, Span};

/// Contexts of recorded steps are rounded up to a power of two, which is at least this.
const SHORTEST_BOUND: usize = 256;

/// Of an upload.
const PARTS: usize = 8;

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug)]
pub struct StagedRow<'a> {
    /// Tokens to compute.
    pub tokens: &'a [TokenId],
    /// Guesses to compute behind them.
    pub drafts: &'a [TokenId],
    /// The position of the first token.
    pub start: usize,
    pub blocks: &'a [u32],
    /// Distributions are wanted after so many of the last tokens.
    pub outputs: usize,
    /// What the device draws from each of them; empty if nothing.
    pub draws: &'a [DrawRow],
}

impl StagedRow<'_> {
    fn count(&self) -> usize {
        self.tokens.len() + self.drafts.len()
    }

    fn end(&self) -> usize {
        self.start + self.count()
    }
}

/// Rows of a recorded step with `rows` sequences.
pub fn padded(rows: usize) -> usize {
    match rows {
        0..=8 => rows.next_power_of_two(),
        9..=32 => rows.next_multiple_of(8),
        33..=64 => rows.next_multiple_of(16),
        65.. => rows.next_multiple_of(32),
    }
}

/// Sizes of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepShape {
    /// Padding included.
    pub rows: usize,
    pub outputs: usize,
    /// Rows in front that are sequences' only ones, or padding.
    pub decodes: usize,
    /// A bound of all contexts.
    pub longest: usize,
    pub table_width: usize,
    tables: usize,
    /// Whether every sequence has one row.
    pub is_recorded: bool,
}

impl StepShape {
    fn of(rows: &[StagedRow<'_>], context: usize) -> Self {
        let sequences = rows.len();
        let longest = rows.iter().map(StagedRow::end).max().unwrap_or(0);
        if rows.iter().all(|row| row.count() == 1) {
            let bound = longest.next_power_of_two().max(SHORTEST_BOUND);
            let longest = bound.min(context.next_multiple_of(PAGE_TOKENS));
            let rows = padded(sequences);
            return Self {
                rows,
                outputs: rows,
                decodes: rows,
                longest,
                table_width: longest.div_ceil(PAGE_TOKENS),
                tables: rows,
                is_recorded: true,
            };
        }
        Self {
            rows: rows.iter().map(StagedRow::count).sum(),
            outputs: rows.iter().map(|row| row.outputs).sum(),
            decodes: rows.iter().filter(|row| row.count() == 1).count(),
            longest,
            table_width: longest.div_ceil(PAGE_TOKENS),
            tables: sequences,
            is_recorded: false,
        }
    }

    pub fn key(&self) -> RecordKey {
        RecordKey {
            rows: self.rows,
            outputs: self.outputs,
            longest: self.longest,
        }
    }

    /// Lengths of the parts of the upload: tokens, positions and tables of rows, which rows are wanted,
    /// blocks, draws, positions and tables of wanted rows.
    fn lengths(&self) -> [usize; PARTS] {
        let gathered = if self.is_recorded { 0 } else { self.outputs };
        let blocks = self.tables * self.table_width;
        let draws = self.outputs * DrawRow::WORDS;
        let rows = self.rows;
        [
            rows, rows, rows, gathered, blocks, draws, gathered, gathered,
        ]
    }

    /// Where the parts begin, and where the last one ends, in bytes.
    fn places(&self) -> [usize; PARTS + 1] {
        let mut places = [0; PARTS + 1];
        for (index, length) in self.lengths().into_iter().enumerate() {
            places[index + 1] = (places[index] + 4 * length).next_multiple_of(ALIGNMENT);
        }
        places
    }
}

/// Bytes that uploads take at most.
pub fn upload_bytes(rows: usize, outputs: usize, slots: usize, context: usize) -> usize {
    let largest = StepShape {
        rows,
        outputs,
        tables: padded(slots),
        table_width: context.div_ceil(PAGE_TOKENS),
        ..StepShape::default()
    };
    largest.places()[PARTS]
}

/// A step, ready for upload. Keeps its memory.
#[derive(Debug, Default)]
pub struct Staging {
    shape: StepShape,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The first output of each sequence, in the order in which they were given.
    first_outputs: Vec<usize>,
    /// Of a single part, on its way to `bytes`.
    part: Vec<u32>,
    /// Sequences in the order of their rows.
    order: Vec<usize>,
    /// The first row of each sequence, in the order in which they were given.
    first_rows: Vec<usize>,
    /// Of all outputs, on their way to `bytes`.
    draws: Vec<DrawRow>,
}

impl Staging {
    /// Takes in a step of sequences whose contexts are no longer than `context`.
    pub fn fill(&mut self, rows: &[StagedRow<'_>], context: usize) {
        self.shape = StepShape::of(rows, context);
        self.arrange(rows);
        self.bytes.clear();
        let padding = self.shape.rows - rows.iter().map(StagedRow::count).sum::<usize>();
        let order = std::mem::take(&mut self.order);
        let ordered = || order.iter().map(|index| (&rows[*index], *index as u32));
        self.add(0, |part| {
            for (row, _) in ordered() {
                part.extend(row.tokens.iter().chain(row.drafts));
            }
            part.extend(std::iter::repeat_n(0, padding));
        });
        self.add(1, |part| {
            for (row, _) in ordered() {
                part.extend(row.start as u32..row.end() as u32);
            }
            part.extend(std::iter::repeat_n(0, padding));
        });
        self.add(2, |part| {
            for (row, table) in ordered() {
                part.extend(std::iter::repeat_n(table, row.count()));
            }
            part.extend(std::iter::repeat_n(PADDING, padding));
        });
        if !self.shape.is_recorded {
            let firsts = std::mem::take(&mut self.first_rows);
            self.add(3, |part| {
                for (row, first) in rows.iter().zip(&firsts) {
                    let end = (first + row.count()) as u32;
                    part.extend(end - row.outputs as u32..end);
                }
            });
            self.first_rows = firsts;
        }
        let StepShape {
            tables,
            table_width,
            ..
        } = self.shape;
        self.add(4, |part| {
            for row in rows {
                let used = row.end().div_ceil(PAGE_TOKENS);
                part.extend_from_slice(&row.blocks[..used]);
                part.extend(std::iter::repeat_n(PADDING, table_width - used));
            }
            let unused = (tables - rows.len()) * table_width;
            part.extend(std::iter::repeat_n(PADDING, unused));
        });
        self.order = order;
        let firsts = std::mem::take(&mut self.first_outputs);
        self.add_draws(rows, &firsts);
        self.first_outputs = firsts;
        self.add_wanted(rows);
    }

    /// Adds where the rows that distributions are wanted of stand, if those are not all.
    fn add_wanted(&mut self, rows: &[StagedRow<'_>]) {
        let wanted = match self.shape.is_recorded {
            true => &[],
            false => rows,
        };
        self.add(6, |part| {
            for row in wanted {
                part.extend((row.end() - row.outputs) as u32..row.end() as u32);
            }
        });
        self.add(7, |part| {
            for (table, row) in wanted.iter().enumerate() {
                part.extend(std::iter::repeat_n(table as u32, row.outputs));
            }
        });
    }

    /// Adds how the tokens of all outputs are drawn.
    fn add_draws(&mut self, rows: &[StagedRow<'_>], firsts: &[usize]) {
        let mut draws = std::mem::take(&mut self.draws);
        draws.clear();
        draws.resize(self.shape.outputs, DrawRow::NOTHING);
        for (row, first) in rows.iter().zip(firsts) {
            draws[*first..][..row.draws.len()].copy_from_slice(row.draws);
        }
        self.add(5, |part| draws.iter().for_each(|draw| draw.encode(part)));
        self.draws = draws;
    }

    /// Gives every sequence its rows and outputs: those with one row in front.
    fn arrange(&mut self, rows: &[StagedRow<'_>]) {
        self.order.clear();
        self.order.extend(0..rows.len());
        self.order.sort_by_key(|index| rows[*index].count() != 1);
        self.spans.clear();
        self.first_rows.clear();
        self.first_rows.resize(rows.len(), 0);
        let mut next = 0;
        for index in &self.order {
            let count = rows[*index].count();
            self.first_rows[*index] = next;
            if count != 1 {
                self.spans.push(Span {
                    first: next as u32,
                    count: count as u32,
                });
            }
            next += count;
        }
        self.first_outputs.clear();
        let mut next = 0;
        for (row, first) in rows.iter().zip(&self.first_rows) {
            if self.shape.is_recorded {
                self.first_outputs.push(*first);
            } else {
                self.first_outputs.push(next);
                next += row.outputs;
            }
        }
    }

    /// Adds a part of the upload at its place.
    fn add(&mut self, index: usize, fill: impl FnOnce(&mut Vec<u32>)) {
        self.part.clear();
        fill(&mut self.part);
        assert_eq!(self.part.len(), self.shape.lengths()[index], "part {index}");
        self.bytes.resize(self.shape.places()[index], 0);
        let bytes = self.part.iter().flat_map(|number| number.to_le_bytes());
        self.bytes.extend(bytes);
    }

    pub fn shape(&self) -> &StepShape {
        &self.shape
    }

    /// Rows behind the decoding ones, by sequence.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Where the distributions of sequence `index` of the step begin.
    pub fn first_output(&self, index: usize) -> usize {
        self.first_outputs[index]
    }

    /// Where an upload has how its tokens are drawn.
    pub(crate) fn draws<O: Ops>(&self, ops: &O, upload: &O::Buffer) -> O::Buffer {
        ops.part(upload, self.shape.places()[5], 4 * self.shape.lengths()[5])
    }

    /// Copies the step to the device.
    pub(crate) fn upload<O: Ops>(
        &self,
        ops: &mut O,
        to: &O::Buffer,
    ) -> Result<Inputs<O::Buffer>, OpsError> {
        ops.write(to, 0, &self.bytes)?;
        let (lengths, places) = (self.shape.lengths(), self.shape.places());
        let part = |index: usize| ops.part(to, places[index], 4 * lengths[index]);
        Ok(Inputs {
            tokens: part(0),
            positions: part(1),
            tables: part(2),
            blocks: part(4),
            wanted: (!self.shape.is_recorded).then(|| Wanted {
                rows: part(3),
                positions: part(6),
                tables: part(7),
            }),
        })
    }
}

/// The parts of an upload.
#[derive(Debug)]
pub(crate) struct Inputs<B> {
    pub(crate) tokens: B,
    positions: B,
    tables: B,
    blocks: B,
    /// The rows that distributions are wanted of, if not all.
    pub(crate) wanted: Option<Wanted<B>>,
}

/// Rows that distributions are wanted of: which they are in the step, and where their tokens stand.
#[derive(Debug)]
pub(crate) struct Wanted<B> {
    pub(crate) rows: B,
    positions: B,
    tables: B,
}

impl<B> Inputs<B> {
    pub(crate) fn rows(&self, shape: &StepShape) -> Rows<'_, B> {
        Rows {
            count: shape.rows,
            positions: &self.positions,
            tables: &self.tables,
            blocks: &self.blocks,
            table_width: shape.table_width,
        }
    }

    /// Those that are wanted.
    pub(crate) fn wanted_rows<'a>(
        &'a self,
        wanted: &'a Wanted<B>,
        shape: &StepShape,
    ) -> Rows<'a, B> {
        Rows {
            count: shape.outputs,
            positions: &wanted.positions,
            tables: &wanted.tables,
            ..self.rows(shape)
        }
    }
}

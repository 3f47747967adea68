//! Products of matrices, by cuBLASLt.
//!
//! At every batch it is within a tenth of what memory allows, so no product is written here. Its own
//! guess at the fastest way is good but not always the best, so ways are timed for some numbers of rows
//! before anybody waits ([`Products::prepare`]); a product of rows between two of them takes the way of
//! the larger. What was not prepared is timed when it is first asked for if it is memory's work (few
//! rows), and else takes the library's guess. Plans are made outside recordings and kept.

#![expect(
    unsafe_code,
    reason = "cuBLASLt is a C library; each call says why it is sound"
)]

mod descriptors;

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::cublaslt::sys as lt;

use self::descriptors::{Descriptors, Scaling, checked};
use crate::driver::{Context, DeviceBuffer, Graph, milliseconds};
use crate::ops::{Dtype, OpsError};
use crate::staging::padded;

/// What NVIDIA recommends for Hopper.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;
/// Products of more rows are arithmetic's work: they take so long that they are timed as they are, and
/// fewer are timed in a graph, as steps run them.
const FEW_ROWS: usize = 128;
/// Ways that the library is asked for, and how many of them are timed again.
const CANDIDATES: usize = 16;
const FINALISTS: usize = 3;
/// Of a candidate of few rows in its graph, and of a finalist of many.
const REPEATS: usize = 6;
const FINAL_REPEATS: usize = 4;
/// Products of more rows take the library's guess. They are limited by the power that a GPU may take: on an
/// H200 all ways then take the same time within 2 %, and the one that was fastest for a moment is not.
const MOST_SEARCHED: usize = 2048;
/// A way for many rows must be faster than the guess by so much, for the same reason.
const WORTH: f32 = 0.97;
/// Numbers of a vector of scales: more outputs or rows than any model's.
const MOST_SCALES: usize = 1 << 17;
/// What [`Products`] allocates.
pub(crate) const BYTES: usize = WORKSPACE_BYTES + 4 * MOST_SCALES;

/// What a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Of weights and activations.
    pub(crate) dtype: Dtype,
    pub(crate) out: Dtype,
}

impl Shape {
    /// Whether the library takes it: its rows of FP8 are multiples of 16 bytes.
    pub(crate) fn is_aligned(self) -> bool {
        let by = if self.dtype == Dtype::Fp8 { 16 } else { 8 };
        self.inputs.is_multiple_of(by) && self.outputs.is_multiple_of(by)
    }
}

/// Addresses of a product's matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub(crate) input: u64,
    pub(crate) weight: u64,
    pub(crate) out: u64,
}

/// The library, with what it needs to work.
#[derive(Debug)]
pub(crate) struct Products {
    context: Arc<Context>,
    handle: lt::cublasLtHandle_t,
    workspace: DeviceBuffer,
    /// Scales of FP8 matrices, all of them one: whoever reads a product scales it.
    ones: DeviceBuffer,
    /// What was found for numbers of rows that are searched.
    ways: HashMap<Shape, Way>,
    plans: HashMap<Shape, Plan>,
}

// SAFETY: the handle may be used from any thread; it has one owner, whose methods take `&mut`.
unsafe impl Send for Products {}

#[derive(Debug)]
struct Plan {
    descriptors: Descriptors,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

/// A way to compute a product.
#[derive(Clone, Copy, Debug)]
struct Way {
    scaling: Scaling,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

/// The number of rows whose way is taken; none where ways are not searched.
fn searched(rows: usize) -> Option<usize> {
    match rows {
        0..=FEW_ROWS => Some(padded(rows)),
        129..=1024 => Some(rows.next_multiple_of(128)),
        1025..=MOST_SEARCHED => Some(rows.next_multiple_of(256)),
        _ => None,
    }
}

impl Products {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, OpsError> {
        context.activate()?;
        let workspace = DeviceBuffer::allocate(context, WORKSPACE_BYTES)?;
        // Some of its ways count in there from zero, and leave zero behind.
        workspace.fill(0)?;
        let ones = DeviceBuffer::allocate(context, 4 * MOST_SCALES)?;
        ones.write(0, &1.0f32.to_le_bytes().repeat(MOST_SCALES))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library was found before there was a context; the result outlives the call.
        unsafe { checked("cublasLtCreate", lt::cublasLtCreate(&raw mut handle))? };
        Ok(Self {
            context: Arc::clone(context),
            handle,
            workspace,
            ones,
            ways: HashMap::new(),
            plans: HashMap::new(),
        })
    }

    pub(crate) fn multiply(
        &mut self,
        shape: Shape,
        operands: Operands,
        recording: bool,
    ) -> Result<(), OpsError> {
        self.context.activate()?;
        if !self.plans.contains_key(&shape) {
            if recording {
                return Err(OpsError::Call {
                    call: "recording",
                    detail: format!("the product {shape:?} was not planned before"),
                });
            }
            let plan = self.plan(shape, operands)?;
            self.plans.insert(shape, plan);
        }
        let plan = &self.plans[&shape];
        self.run(&plan.descriptors, &plan.algorithm, operands)
    }

    /// Finds the fastest ways for products like this one of up to so many rows.
    pub(crate) fn prepare(&mut self, shape: Shape, operands: Operands) -> Result<(), OpsError> {
        self.context.activate()?;
        let mut next = searched(1);
        while let Some(rows) = next {
            // There may be no memory for as many as the last one stands for.
            let most = Shape {
                rows: rows.min(shape.rows),
                ..shape
            };
            let way = self.search(most, operands)?;
            self.ways.insert(Shape { rows, ..shape }, way);
            next = searched(rows + 1).filter(|_| rows < shape.rows);
        }
        Ok(())
    }

    fn plan(&self, shape: Shape, operands: Operands) -> Result<Plan, OpsError> {
        if let Some(plan) = self.prepared(shape)? {
            return Ok(plan);
        }
        let way = match shape.rows <= FEW_ROWS {
            true => self.search(shape, operands)?,
            false => self.guess(shape)?,
        };
        Ok(Plan {
            descriptors: self.describe(shape, way.scaling)?,
            algorithm: way.algorithm,
        })
    }

    /// The way that was found for such a number of rows, if the library takes it for this one too.
    fn prepared(&self, shape: Shape) -> Result<Option<Plan>, OpsError> {
        let way = searched(shape.rows).and_then(|rows| self.ways.get(&Shape { rows, ..shape }));
        let Some(way) = way else {
            return Ok(None);
        };
        let descriptors = self.describe(shape, way.scaling)?;
        let takes = descriptors.take(self.handle, &way.algorithm, WORKSPACE_BYTES);
        Ok(takes.then_some(Plan {
            descriptors,
            algorithm: way.algorithm,
        }))
    }

    fn describe(&self, shape: Shape, scaling: Scaling) -> Result<Descriptors, OpsError> {
        Descriptors::new(shape, scaling, self.ones.address())
    }

    /// The library's own.
    fn guess(&self, shape: Shape) -> Result<Way, OpsError> {
        let descriptors = self.describe(shape, Scaling::Whole)?;
        let candidates = descriptors.candidates(self.handle, 1, WORKSPACE_BYTES)?;
        let scaling = Scaling::Whole;
        let way = candidates.first().map(|algorithm| Way {
            scaling,
            algorithm: *algorithm,
        });
        way.ok_or_else(|| OpsError::Call {
            call: "cublasLtMatmulAlgoGetHeuristic",
            detail: format!("it knows no way to compute {shape:?}"),
        })
    }

    /// The fastest way; the library's own if none can be timed.
    fn search(&self, shape: Shape, operands: Operands) -> Result<Way, OpsError> {
        let timed = self.timed(shape, operands)?;
        let best = match shape.rows <= FEW_ROWS {
            true => timed.first().map(|(_, way)| *way),
            false => self.worth(shape, operands, &timed)?,
        };
        best.map_or_else(|| self.guess(shape), Ok)
    }

    /// What each way takes, the fastest first. A candidate that fails is none.
    fn timed(&self, shape: Shape, operands: Operands) -> Result<Vec<(f32, Way)>, OpsError> {
        // Rows and columns that are scaled one by one have ways of their own, some of them faster where
        // a product is arithmetic's work.
        let by_each = shape.dtype == Dtype::Fp8 && shape.rows > FEW_ROWS;
        let scalings: &[Scaling] = match by_each && shape.outputs.max(shape.rows) <= MOST_SCALES {
            true => &[Scaling::Whole, Scaling::Each],
            false => &[Scaling::Whole],
        };
        let mut timed = Vec::new();
        for scaling in scalings {
            let descriptors = self.describe(shape, *scaling)?;
            let candidates = descriptors.candidates(self.handle, CANDIDATES, WORKSPACE_BYTES);
            for algorithm in candidates.unwrap_or_default() {
                let way = Way {
                    scaling: *scaling,
                    algorithm,
                };
                if let Ok(took) = self.time(shape, &way, operands, 1) {
                    timed.push((took, way));
                }
            }
        }
        timed.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(timed)
    }

    /// The fastest of the first ones when they are timed again, if it is faster than the library's guess.
    fn worth(
        &self,
        shape: Shape,
        operands: Operands,
        timed: &[(f32, Way)],
    ) -> Result<Option<Way>, OpsError> {
        let guess = self.guess(shape)?;
        let mut best = (
            WORTH * self.time(shape, &guess, operands, FINAL_REPEATS)?,
            None,
        );
        for (_, way) in timed.iter().take(FINALISTS) {
            let took = self.time(shape, way, operands, FINAL_REPEATS)?;
            if took < best.0 {
                best = (took, Some(*way));
            }
        }
        Ok(best.1)
    }

    /// Milliseconds that a way takes. The library is asked to compute before it is timed: it may have to
    /// load a kernel.
    fn time(
        &self,
        shape: Shape,
        way: &Way,
        operands: Operands,
        repeats: usize,
    ) -> Result<f32, OpsError> {
        let descriptors = self.describe(shape, way.scaling)?;
        let run = || self.run(&descriptors, &way.algorithm, operands);
        if shape.rows > FEW_ROWS {
            run()?;
            let took = milliseconds(&self.context, || (0..repeats).try_for_each(|_| run()))?;
            return Ok(took / repeats as f32);
        }
        Graph::begin(&self.context)?;
        let recorded = (0..REPEATS).try_for_each(|_| run());
        let graph = Graph::end(&self.context);
        recorded?;
        let graph = graph?;
        graph.launch()?;
        milliseconds(&self.context, || graph.launch())
    }

    fn run(
        &self,
        descriptors: &Descriptors,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        operands: Operands,
    ) -> Result<(), OpsError> {
        let (alpha, beta) = (1.0f32, 0.0f32);
        let pointer = |address: u64| address as *mut std::ffi::c_void;
        // SAFETY: handle, descriptors and workspace live; the factors outlive the call, which copies
        // them; the matrices are the device's memory.
        unsafe {
            checked(
                "cublasLtMatmul",
                lt::cublasLtMatmul(
                    self.handle,
                    descriptors.operation,
                    (&raw const alpha).cast(),
                    pointer(operands.weight),
                    descriptors.weight,
                    pointer(operands.input),
                    descriptors.input,
                    (&raw const beta).cast(),
                    pointer(operands.out),
                    descriptors.out,
                    pointer(operands.out),
                    descriptors.out,
                    algorithm,
                    pointer(self.workspace.address()),
                    self.workspace.bytes(),
                    self.context.stream().cast(),
                ),
            )
        }
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        if self.context.synchronize().is_ok() {
            // SAFETY: our own handle, and nothing that it started runs any more.
            let _ = unsafe { lt::cublasLtDestroy(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_the_way_of_the_next_number_that_is_searched() {
        let found = [1, 3, 17, 128, 129, 512, 513, 1024, 1025, 2048, 2049, 8192].map(searched);
        let expected = [1, 4, 24, 128, 256, 512, 640, 1024, 1280, 2048, 0, 0];
        assert_eq!(found.map(|rows| rows.unwrap_or(0)), expected);
        // What is searched stands for itself.
        for rows in (1..=MOST_SEARCHED).filter_map(searched) {
            assert_eq!(searched(rows), Some(rows));
        }
    }
}

//! Products of matrices, by cuBLASLt.
//!
//! At every batch it is within a tenth of what memory allows, so no product is written here. Its own
//! guess at the fastest way is good but not the best: where a product is memory's work (few rows), the
//! candidates are timed when it is first asked for, on the memory that it is asked for, in a graph as
//! steps are. Plans are made outside recordings and kept.

#![expect(
    unsafe_code,
    reason = "cuBLASLt is a C library; each call says why it is sound"
)]

mod descriptors;

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::cublaslt::sys as lt;

use self::descriptors::{Descriptors, checked};
use crate::driver::{Context, DeviceBuffer, Graph, milliseconds};
use crate::ops::{Dtype, OpsError};

/// What NVIDIA recommends for Hopper.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;
/// Products of more rows are arithmetic's work; the library's first guess is then within a few percent.
const SEARCHED_ROWS: usize = 128;
const CANDIDATES: usize = 16;
/// Of a candidate, in its graph.
const REPEATS: usize = 6;

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
    /// The scale of FP8 matrices: whoever reads a product scales it.
    one: DeviceBuffer,
    plans: HashMap<Shape, Plan>,
}

// SAFETY: the handle may be used from any thread; it has one owner, whose methods take `&mut`.
unsafe impl Send for Products {}

#[derive(Debug)]
struct Plan {
    descriptors: Descriptors,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

impl Products {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, OpsError> {
        context.activate()?;
        let workspace = DeviceBuffer::allocate(context, WORKSPACE_BYTES)?;
        // Some of its ways count in there from zero, and leave zero behind.
        workspace.fill(0)?;
        let one = DeviceBuffer::allocate(context, 4)?;
        one.write(0, &1.0f32.to_le_bytes())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library was found before there was a context; the result outlives the call.
        unsafe { checked("cublasLtCreate", lt::cublasLtCreate(&raw mut handle))? };
        Ok(Self {
            context: Arc::clone(context),
            handle,
            workspace,
            one,
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

    fn plan(&self, shape: Shape, operands: Operands) -> Result<Plan, OpsError> {
        let descriptors = Descriptors::new(shape, self.one.address())?;
        let candidates = descriptors.candidates(self.handle, CANDIDATES, WORKSPACE_BYTES)?;
        let Some(first) = candidates.first() else {
            return Err(OpsError::Call {
                call: "cublasLtMatmulAlgoGetHeuristic",
                detail: format!("it knows no way to compute {shape:?}"),
            });
        };
        let mut best = (f32::INFINITY, *first);
        if shape.rows <= SEARCHED_ROWS {
            for algorithm in &candidates {
                // A candidate that fails is none.
                if let Ok(took) = self.time(&descriptors, algorithm, operands)
                    && took < best.0
                {
                    best = (took, *algorithm);
                }
            }
        }
        Ok(Plan {
            descriptors,
            algorithm: best.1,
        })
    }

    fn time(
        &self,
        descriptors: &Descriptors,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        operands: Operands,
    ) -> Result<f32, OpsError> {
        Graph::begin(&self.context)?;
        let mut recorded = Ok(());
        for _ in 0..REPEATS {
            recorded = recorded.and_then(|()| self.run(descriptors, algorithm, operands));
        }
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

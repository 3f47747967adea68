//! What cuBLASLt is told of a product.
//!
//! It counts column by column. Row after row of weights is, to it, a matrix of `inputs` rows to be
//! transposed; rows of activations are columns, and so are those of the result.

use std::ffi::c_void;
use std::ptr;

use cudarc::cublaslt::sys as lt;

use super::Shape;
use crate::ops::{Dtype, OpsError};

/// `CUBLAS_OP_T` of cuBLAS, whose bindings are not needed for anything else.
const TRANSPOSED: i32 = 1;
/// A number for each row or column.
const BY_VECTOR: lt::cublasLtMatmulMatrixScale_t =
    lt::cublasLtMatmulMatrixScale_t::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;

/// How FP8 matrices are scaled. All scales are one, and results the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// Each matrix by a number.
    Whole,
    /// Each row of activations and each output by its own.
    Each,
}

/// The descriptions of a product and of its matrices.
#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) operation: lt::cublasLtMatmulDesc_t,
    pub(super) weight: lt::cublasLtMatrixLayout_t,
    pub(super) input: lt::cublasLtMatrixLayout_t,
    pub(super) out: lt::cublasLtMatrixLayout_t,
}

impl Descriptors {
    /// `ones` is as many ones as there are rows or outputs.
    pub(super) fn new(shape: Shape, scaling: Scaling, ones: u64) -> Result<Self, OpsError> {
        let mut made = Self {
            operation: ptr::null_mut(),
            weight: ptr::null_mut(),
            input: ptr::null_mut(),
            out: ptr::null_mut(),
        };
        let float = lt::cudaDataType_t::CUDA_R_32F;
        let compute = lt::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        // SAFETY: the result goes to a field that outlives the call.
        unsafe {
            checked(
                "cublasLtMatmulDescCreate",
                lt::cublasLtMatmulDescCreate(&raw mut made.operation, compute, float),
            )?;
        }
        made.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if shape.dtype == Dtype::Fp8 {
            made.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &ones)?;
            made.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &ones)?;
            if scaling == Scaling::Each {
                made.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &BY_VECTOR)?;
                made.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &BY_VECTOR)?;
            }
            // Sums in the matrix unit's own precision, as others do: the slower way adds up blocks of 128
            // in F32.
            made.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1i8)?;
        }
        let (rows, inputs, outputs) = (shape.rows, shape.inputs, shape.outputs);
        made.weight = layout(shape.dtype, inputs, outputs)?;
        made.input = layout(shape.dtype, inputs, rows)?;
        made.out = layout(shape.out, outputs, rows)?;
        Ok(made)
    }

    fn set<T>(&self, attribute: Attribute, value: &T) -> Result<(), OpsError> {
        // SAFETY: the value is as long as said, and is copied.
        unsafe {
            checked(
                "cublasLtMatmulDescSetAttribute",
                lt::cublasLtMatmulDescSetAttribute(
                    self.operation,
                    attribute,
                    ptr::from_ref(value).cast::<c_void>(),
                    size_of::<T>(),
                ),
            )
        }
    }

    /// The library's guesses at the fastest ways, best first.
    pub(super) fn candidates(
        &self,
        handle: lt::cublasLtHandle_t,
        count: usize,
        workspace_bytes: usize,
    ) -> Result<Vec<lt::cublasLtMatmulAlgo_t>, OpsError> {
        let workspace =
            lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let bytes = workspace_bytes as u64;
        let mut found = 0;
        // SAFETY: descriptions and handle live; the array has as many places as are asked for, of a plain
        // C structure for which zeros are a value.
        let (asked, mut results) = unsafe {
            let mut results: Vec<lt::cublasLtMatmulHeuristicResult_t> =
                vec![std::mem::zeroed(); count];
            let mut preference = ptr::null_mut();
            checked(
                "cublasLtMatmulPreferenceCreate",
                lt::cublasLtMatmulPreferenceCreate(&raw mut preference),
            )?;
            let limited = lt::cublasLtMatmulPreferenceSetAttribute(
                preference,
                workspace,
                (&raw const bytes).cast(),
                size_of::<u64>(),
            );
            let asked = checked("cublasLtMatmulPreferenceSetAttribute", limited).and_then(|()| {
                checked(
                    "cublasLtMatmulAlgoGetHeuristic",
                    lt::cublasLtMatmulAlgoGetHeuristic(
                        handle,
                        self.operation,
                        self.weight,
                        self.input,
                        self.out,
                        self.out,
                        preference,
                        i32::try_from(count).unwrap_or(i32::MAX),
                        results.as_mut_ptr(),
                        &raw mut found,
                    ),
                )
            });
            let _ = lt::cublasLtMatmulPreferenceDestroy(preference);
            (asked, results)
        };
        asked?;
        results.truncate(found.unsigned_abs() as usize);
        results.retain(|result| result.state == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(results.into_iter().map(|result| result.algo).collect())
    }

    /// Whether the library computes this product by this algorithm, with so much workspace.
    pub(super) fn take(
        &self,
        handle: lt::cublasLtHandle_t,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        workspace_bytes: usize,
    ) -> bool {
        // SAFETY: descriptions and handle live; the algorithm and the result, a plain C structure for which
        // zeros are a value, outlive the call.
        unsafe {
            let mut result: lt::cublasLtMatmulHeuristicResult_t = std::mem::zeroed();
            let answer = lt::cublasLtMatmulAlgoCheck(
                handle,
                self.operation,
                self.weight,
                self.input,
                self.out,
                self.out,
                ptr::from_ref(algorithm),
                &raw mut result,
            );
            answer == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS
                && result.workspaceSize <= workspace_bytes
        }
    }
}

type Attribute = lt::cublasLtMatmulDescAttributes_t;

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: our own, whose last user this is; null is what could not be made.
        unsafe {
            for layout in [self.weight, self.input, self.out] {
                if !layout.is_null() {
                    let _ = lt::cublasLtMatrixLayoutDestroy(layout);
                }
            }
            let _ = lt::cublasLtMatmulDescDestroy(self.operation);
        }
    }
}

fn layout(
    dtype: Dtype,
    rows: usize,
    columns: usize,
) -> Result<lt::cublasLtMatrixLayout_t, OpsError> {
    let kind = match dtype {
        Dtype::F32 => lt::cudaDataType_t::CUDA_R_32F,
        Dtype::Bf16 => lt::cudaDataType_t::CUDA_R_16BF,
        Dtype::Fp8 => lt::cudaDataType_t::CUDA_R_8F_E4M3,
    };
    let mut layout = ptr::null_mut();
    // SAFETY: the result goes to a variable that outlives the call.
    unsafe {
        checked(
            "cublasLtMatrixLayoutCreate",
            lt::cublasLtMatrixLayoutCreate(
                &raw mut layout,
                kind,
                rows as u64,
                columns as u64,
                i64::try_from(rows).unwrap_or(i64::MAX),
            ),
        )?;
    }
    Ok(layout)
}

/// The library's answer as an error.
pub(super) fn checked(call: &'static str, answer: lt::cublasStatus_t) -> Result<(), OpsError> {
    if answer == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    Err(OpsError::Call {
        call,
        detail: format!("{answer:?}"),
    })
}

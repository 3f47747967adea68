//! The operations on an NVIDIA GPU.
//!
//! Everything runs on one stream, in the order of the calls. A recorded step is first run as it is,
//! which plans its products and allocates what attention needs beside its arguments; the second time it
//! is recorded, and from then on a single call starts its hundreds of kernels.

mod arguments;
mod attention;
mod kernels;
pub mod limits;

use std::collections::HashMap;
use std::sync::Arc;

use self::attention::Scratch;
use self::kernels::{Kernels, MANY_ROWS, many_gates, many_heads, row_grid};
use super::{
    Activations, Attend, Draw, Dtype, Embed, FillRandom, Gate, Gemm, Norm, Ops, OpsError, Product,
    RecordKey, RotateStore,
};
use crate::driver::{Context, DeviceBuffer, DeviceError, DeviceOptions, Graph, Grid, milliseconds};
use crate::gemm::{Operands, Products, Shape};

/// Opens a GPU.
pub fn open(options: &DeviceOptions) -> Result<DeviceOps, DeviceError> {
    let context = Arc::new(Context::open(options)?);
    DeviceOps::new(context).map_err(|source| DeviceError::Unusable {
        gpu: options.gpu,
        source,
    })
}

/// A GPU with its kernels.
#[derive(Debug)]
pub struct DeviceOps {
    graphs: HashMap<RecordKey, Option<Graph>>,
    recording: bool,
    scratch: Scratch,
    products: Products,
    kernels: Kernels,
    context: Arc<Context>,
}

impl DeviceOps {
    fn new(context: Arc<Context>) -> Result<Self, OpsError> {
        Ok(Self {
            graphs: HashMap::new(),
            recording: false,
            scratch: Scratch::default(),
            products: Products::new(&context)?,
            kernels: Kernels::load(&context)?,
            context,
        })
    }

    /// The GPU's name by its driver.
    pub fn name(&self) -> &str {
        self.context.name()
    }

    /// All of its memory.
    pub fn total_bytes(&self) -> usize {
        self.context.total_bytes()
    }

    /// The CUDA that the driver knows: major, minor.
    pub fn driver_version(&self) -> (u32, u32) {
        self.context.version()
    }

    /// Milliseconds that the device takes for what `work` asks of it, by its own clock.
    pub fn milliseconds(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), OpsError>,
    ) -> Result<f32, OpsError> {
        let context = Arc::clone(&self.context);
        milliseconds(&context, || work(self))
    }

    /// Forgets recorded steps: to be called before memory that they use is dropped.
    pub fn forget_recorded(&mut self) {
        self.graphs.clear();
    }
}

impl Ops for DeviceOps {
    type Buffer = DeviceBuffer;

    fn allocate(&mut self, bytes: usize) -> Result<DeviceBuffer, OpsError> {
        DeviceBuffer::allocate(&self.context, bytes)
    }

    fn part(&self, of: &DeviceBuffer, at: usize, bytes: usize) -> DeviceBuffer {
        of.part(at, bytes)
    }

    fn write(&mut self, to: &DeviceBuffer, at: usize, bytes: &[u8]) -> Result<(), OpsError> {
        if self.recording {
            return Err(OpsError::Call {
                call: "recording",
                detail: "a recorded step writes nothing from the host".to_owned(),
            });
        }
        to.write(at, bytes)
    }

    fn read(&mut self, from: &DeviceBuffer, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        from.read(at, bytes)
    }

    fn free_bytes(&self) -> Result<usize, OpsError> {
        self.context.free_bytes()
    }

    fn prepare(&mut self, op: Gemm<'_, DeviceBuffer>) -> Result<(), OpsError> {
        let Some((shape, operands)) = product_of(&op)? else {
            return Ok(());
        };
        if !shape.is_aligned() {
            return Ok(());
        }
        // Numbers that are all alike take less power than a prompt's, and other ways are then faster. Rows
        // of FP8 reach up to the largest number there is.
        self.fill_random(FillRandom {
            to: op.input.values,
            dtype: op.input.dtype,
            count: op.rows * op.weight.inputs,
            seed: 1,
            deviation: if op.input.dtype == Dtype::Fp8 {
                112.0
            } else {
                1.0
            },
        })?;
        self.products.prepare(shape, operands)
    }

    fn embed(&mut self, op: Embed<'_, DeviceBuffer>) -> Result<(), OpsError> {
        let kernel = self.kernels.embed.of(op.table.dtype)?;
        let threads = op.table.inputs.clamp(1, 256).next_multiple_of(32);
        kernel.launch(
            Grid::new([op.rows, 1, 1], threads),
            arguments::Embed::new(&op)?,
        )
    }

    fn norm(&mut self, op: Norm<'_, DeviceBuffer>) -> Result<(), OpsError> {
        only_bf16(op.addition.as_ref())?;
        let kernel = self.kernels.norm.of(op.out.dtype)?;
        kernel.launch(row_grid(op.rows, op.width)?, arguments::Norm::new(&op)?)
    }

    fn gemm(&mut self, op: Gemm<'_, DeviceBuffer>) -> Result<(), OpsError> {
        let Some((shape, operands)) = product_of(&op)? else {
            return Ok(());
        };
        if shape.is_aligned() {
            return self.products.multiply(shape, operands, self.recording);
        }
        let kernel = self.kernels.gemm.of(shape.dtype, shape.out)?;
        let grid = Grid::new([shape.outputs.div_ceil(8), op.rows, 1], 256);
        kernel.launch(grid, arguments::Gemm::new(operands, shape)?)
    }

    fn rotate_store(&mut self, op: RotateStore<'_, DeviceBuffer>) -> Result<(), OpsError> {
        only_bf16(Some(&op.qkv))?;
        let heads = op.heads + 2 * op.pages.kv_heads;
        let of_size = |(size, _): &&(usize, _)| *size == op.pages.head_size;
        let many = self.kernels.rotate_store_rows.iter().find(of_size);
        if let Some((size, kernels)) = many
            && op.rows.count >= MANY_ROWS
        {
            let grid = many_heads(op.rows.count, heads, *size);
            let kernel = kernels.of(op.pages.dtype)?;
            return kernel.launch(grid, arguments::RotateStore::new(&op)?);
        }
        let kernel = self.kernels.rotate_store.of(op.pages.dtype)?;
        let grid = Grid::new([heads.div_ceil(8), op.rows.count, 1], 256);
        kernel.launch(grid, arguments::RotateStore::new(&op)?)
    }

    fn attend(&mut self, op: Attend<'_, DeviceBuffer>) -> Result<(), OpsError> {
        attention::attend(self, &op)
    }

    fn gate(&mut self, op: Gate<'_, DeviceBuffer>) -> Result<(), OpsError> {
        only_bf16(Some(&op.gate_up))?;
        if let Some(grid) = many_gates(op.rows, op.width) {
            let kernel = self.kernels.gate_rows.of(op.out.dtype)?;
            return kernel.launch(grid, arguments::Gate::new(&op)?);
        }
        let kernel = self.kernels.gate.of(op.out.dtype)?;
        kernel.launch(row_grid(op.rows, op.width)?, arguments::Gate::new(&op)?)
    }

    fn draw(&mut self, op: Draw<'_, DeviceBuffer>) -> Result<(), OpsError> {
        let grid = Grid::new([op.rows, 1, 1], 1024);
        self.kernels.draw.launch(grid, arguments::Draw::new(&op)?)
    }

    fn fill_random(&mut self, op: FillRandom<'_, DeviceBuffer>) -> Result<(), OpsError> {
        let kernel = self.kernels.fill_random.of(op.dtype)?;
        let blocks = op.count.div_ceil(256).min(16 * 1024);
        kernel.launch(
            Grid::new([blocks, 1, 1], 256),
            arguments::FillRandom::new(&op),
        )
    }

    fn recorded(
        &mut self,
        key: RecordKey,
        step: &mut dyn FnMut(&mut Self) -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        match self.graphs.get(&key) {
            Some(Some(graph)) => return graph.launch(),
            Some(None) => {}
            None => {
                step(self)?;
                self.graphs.insert(key, None);
                return Ok(());
            }
        }
        Graph::begin(&self.context)?;
        self.recording = true;
        let recorded = step(self);
        self.recording = false;
        // Ended in any case: a stream that records does nothing else.
        let graph = Graph::end(&self.context);
        recorded?;
        let graph = graph?;
        graph.launch()?;
        self.graphs.insert(key, Some(graph));
        Ok(())
    }
}

/// What the library is asked for, if there is anything to compute.
fn product_of(op: &Gemm<'_, DeviceBuffer>) -> Result<Option<(Shape, Operands)>, OpsError> {
    let shape = Shape {
        rows: op.rows,
        inputs: op.weight.inputs,
        outputs: op.weight.outputs,
        dtype: op.weight.dtype,
        out: op.out_dtype,
    };
    if op.input.dtype != op.weight.dtype
        || op.weight.dtype == Dtype::F32
        || op.out_dtype == Dtype::Fp8
    {
        return Err(unsupported(format!(
            "a product of {:?} and {:?} to {:?}",
            op.input.dtype, op.weight.dtype, op.out_dtype
        )));
    }
    let operands = Operands {
        input: op.input.values.address(),
        weight: op.weight.values.address(),
        out: op.out.address(),
    };
    Ok((op.rows > 0).then_some((shape, operands)))
}

/// The scale of each row that is stored as FP8, or nothing.
fn scales_of(out: &Activations<'_, DeviceBuffer>) -> Result<u64, OpsError> {
    match (out.dtype, out.scales) {
        (Dtype::Fp8, Some(scales)) => Ok(scales.address()),
        (Dtype::Fp8, None) => Err(unsupported("rows of FP8 without scales".to_owned())),
        (Dtype::F32 | Dtype::Bf16, _) => Ok(0),
    }
}

fn only_bf16(product: Option<&Product<'_, DeviceBuffer>>) -> Result<(), OpsError> {
    match product {
        Some(product) if product.dtype != Dtype::Bf16 => Err(unsupported(format!(
            "a product stored as {:?}",
            product.dtype
        ))),
        _ => Ok(()),
    }
}

/// What the host computes and the device does not.
fn unsupported(what: String) -> OpsError {
    OpsError::Call {
        call: "choosing a kernel",
        detail: format!("there is none for {what}"),
    }
}

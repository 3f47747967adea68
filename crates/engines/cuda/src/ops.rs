//! What a step is made of: some ten operations, on the device and on the host.
//!
//! The seam between what a model computes and what computes it. Sizes come from the caller and are
//! checked where the memory was allocated; an operation may assume them.
//!
//! **Order.** Operations run in the order of their calls. They may run later than the call returns;
//! [`Ops::write`] and [`Ops::read`] wait for all of them. An error may therefore come with a later call, and is final.
//!
//! **Rows.** A step has tokens of several sequences, one row each, in one batch. Rows of sequences
//! that decode come first. A recorded step has a fixed number of rows, so the last ones may be padding:
//! their table is [`PADDING`]. Padding stores nothing and attends to nothing (zeros come out).
//!
//! **Scales.** A product of FP8 numbers is stored as it comes out; whoever reads it multiplies it by
//! the scale of its row and that of its column ([`Product`]). So every checkpoint, with scales by
//! tensor, by channel or by token, takes the fast way through the matrix unit.

pub mod device;
mod draw;
pub mod host;

use std::fmt::Debug;

pub use self::draw::{Draw, DrawRow, MOST_FORBIDDEN};

/// Derived copies would ask the same of buffers, which are only pointed to.
macro_rules! copies {
    ($($name:ident),*) => {$(
        impl<B> Clone for $name<'_, B> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<B> Copy for $name<'_, B> {}
    )*};
}

copies!(
    Activations,
    Attend,
    Draw,
    Embed,
    FillRandom,
    Gate,
    Gemm,
    Norm,
    Pages,
    Product,
    RotateStore,
    Rows
);

/// The table of a row that is padding.
pub const PADDING: u32 = u32::MAX;
/// Where parts of a buffer may begin: what the widest read of a kernel and a product need.
pub const ALIGNMENT: usize = 256;
/// Tokens of a page, and of a block of the engine.
pub const PAGE_TOKENS: usize = 32;

/// Why the device cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    #[error("the device has no room for {bytes} bytes more")]
    OutOfMemory { bytes: usize },
    #[error("{call} failed: {detail}")]
    Call { call: &'static str, detail: String },
}

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Statistics and logits everywhere; weights, activations and cache on the host alone, where the
    /// twin is to be exact.
    F32,
    Bf16,
    /// E4M3: four bits of exponent, three of mantissa, up to 448.
    Fp8,
}

impl Dtype {
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
            Self::Fp8 => 1,
        }
    }
}

/// A matrix of weights: a row for each output, a column for each input.
#[derive(Debug)]
pub struct Weight<B> {
    /// Row after row.
    pub values: B,
    pub dtype: Dtype,
    pub outputs: usize,
    pub inputs: usize,
    /// With FP8, what each output is multiplied by: `outputs` numbers (F32).
    pub scales: Option<B>,
}

/// Rows that go into a product.
#[derive(Debug)]
pub struct Activations<'a, B> {
    /// Row after row.
    pub values: &'a B,
    pub dtype: Dtype,
    /// With FP8, what each row is multiplied by (F32).
    pub scales: Option<&'a B>,
}

/// What came out of a product and is not scaled yet: a number stands for itself times its row's scale
/// times its column's.
#[derive(Debug)]
pub struct Product<'a, B> {
    /// Row after row; BF16, or F32 where activations are.
    pub values: &'a B,
    pub dtype: Dtype,
    pub row_scales: Option<&'a B>,
    pub column_scales: Option<&'a B>,
}

/// Rows of a table, by token. A row of padding is anything finite. A table may also be the residual stream
/// of a step, and its tokens rows of it.
#[derive(Debug)]
pub struct Embed<'a, B> {
    /// For each row (u32).
    pub tokens: &'a B,
    pub rows: usize,
    pub table: &'a Weight<B>,
    /// F32, `rows` of `table.inputs`.
    pub residual: &'a B,
}

/// `residual += addition`, then `out = residual / rms(residual) * weight`, stored as `out` says: with
/// FP8 each row by its own scale, which is its largest magnitude over 448.
#[derive(Debug)]
pub struct Norm<'a, B> {
    /// Of the result.
    pub rows: usize,
    pub width: usize,
    /// F32.
    pub residual: &'a B,
    pub addition: Option<Product<'a, B>>,
    /// F32, `width` numbers.
    pub weight: &'a B,
    pub epsilon: f32,
    pub out: Activations<'a, B>,
}

/// `out = input * weightᵀ`, without scales.
#[derive(Debug)]
pub struct Gemm<'a, B> {
    pub rows: usize,
    pub input: Activations<'a, B>,
    pub weight: &'a Weight<B>,
    /// `rows` of `weight.outputs`.
    pub out: &'a B,
    /// F32 for logits; else BF16, or F32 where activations are.
    pub out_dtype: Dtype,
}

/// Where keys and values are.
///
/// The pool is an array of blocks. A block has, layer after layer and in it head after head, a page
/// of 32 tokens: keys `[token][component]`, then values `[component][token]`. So a block is one piece
/// of memory, and every fragment that attention reads is too.
#[derive(Debug)]
pub struct Pages<'a, B> {
    pub pool: &'a B,
    pub dtype: Dtype,
    pub layers: usize,
    pub layer: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    /// What stored keys and values are multiplied by when read (FP8; else 1).
    pub key_scale: f32,
    pub value_scale: f32,
}

impl<B> Pages<'_, B> {
    /// Bytes of one head's keys and values in a block.
    pub fn page_bytes(&self) -> usize {
        2 * PAGE_TOKENS * self.head_size * self.dtype.bytes()
    }

    pub fn block_bytes(&self) -> usize {
        self.layers * self.kv_heads * self.page_bytes()
    }
}

/// The rows of a step as the device sees them.
#[derive(Debug)]
pub struct Rows<'a, B> {
    pub count: usize,
    /// The position of each row's token in its sequence (u32).
    pub positions: &'a B,
    /// Which table each row's sequence has (u32), or [`PADDING`].
    pub tables: &'a B,
    /// Block tables, each `table_width` numbers (u32).
    pub blocks: &'a B,
    pub table_width: usize,
}

/// Which components of a head are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// `i` and `i + half`.
    Halves,
    /// `2 i` and `2 i + 1`.
    Neighbours,
}

/// Scales and biases queries, keys and values, turns queries and keys to their positions, and puts
/// keys and values into their pages.
#[derive(Debug)]
pub struct RotateStore<'a, B> {
    pub rows: Rows<'a, B>,
    /// Each row: queries of all heads, then keys, then values.
    pub qkv: Product<'a, B>,
    /// As wide as a row of `qkv` (F32).
    pub bias: Option<&'a B>,
    pub heads: usize,
    /// For each position `head_size / 2` cosines, then as many sines (F32).
    pub angles: &'a B,
    pub pairs: Pairs,
    pub pages: Pages<'a, B>,
    /// `count` rows of `heads * head_size`; as `qkv.dtype`.
    pub queries: &'a B,
}

/// A run of rows of one sequence in order, none of them padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub first: u32,
    pub count: u32,
}

/// Causal attention of each row to its own position and those before, from the pages, which have the
/// step's own keys and values already.
#[derive(Debug)]
pub struct Attend<'a, B> {
    pub rows: Rows<'a, B>,
    /// Rows in front that are sequences' only ones in this step, or padding; how many keys each sees
    /// is known to the device alone.
    pub decodes: usize,
    /// The rows after them. Empty in a recorded step.
    pub prefills: &'a [Span],
    /// The longest context of a row: bounds work on the device, and no more.
    pub longest: usize,
    pub heads: usize,
    pub pages: Pages<'a, B>,
    /// As [`RotateStore`] left them.
    pub queries: &'a B,
    /// One over the square root of the head's size.
    pub scale: f32,
    /// `count` rows of `heads * head_size`; with FP8 each row by its own scale.
    pub out: Activations<'a, B>,
}

/// `out = silu(gate) * up`, from rows that hold all gates and then all ups.
#[derive(Debug)]
pub struct Gate<'a, B> {
    pub rows: usize,
    /// Of the result.
    pub width: usize,
    pub gate_up: Product<'a, B>,
    pub out: Activations<'a, B>,
}

/// Normal numbers from a hash of seed and place, times `deviation`: weights for measuring.
///
/// The hash is splitmix64's `mix(seed + (place + 1) * 0x9e3779b97f4a7c15)`; with its upper half `a` and
/// its lower half `b` as shares of 2^32, the number is `sqrt(-2 ln(a + 2^-32)) cos(2 pi b)`.
#[derive(Debug)]
pub struct FillRandom<'a, B> {
    pub to: &'a B,
    pub dtype: Dtype,
    pub count: usize,
    pub seed: u64,
    pub deviation: f32,
}

/// Names a recorded step: what is the same key has the same operations on the same memory, with the
/// same numbers in their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordKey {
    pub rows: usize,
    pub outputs: usize,
    /// A bound of contexts, see [`Attend::longest`].
    pub longest: usize,
}

/// What computes a step.
pub trait Ops: Debug + Send {
    /// Memory of the device; given back when it and all its parts are dropped, on whatever thread.
    /// Weights are shared: once [`read`](Self::read) has waited for what wrote them, others of the
    /// same device may read them too.
    type Buffer: Debug + Send + Sync;

    /// Memory whose content is undefined.
    fn allocate(&mut self, bytes: usize) -> Result<Self::Buffer, OpsError>;

    /// `bytes` bytes of a buffer from `at` on, a multiple of [`ALIGNMENT`]; they stay the buffer's own
    /// memory.
    fn part(&self, of: &Self::Buffer, at: usize, bytes: usize) -> Self::Buffer;

    /// Waits for all operations and copies bytes to the device. They may change when the call has
    /// returned.
    fn write(&mut self, to: &Self::Buffer, at: usize, bytes: &[u8]) -> Result<(), OpsError>;

    /// Waits for all operations and copies bytes from the device.
    fn read(&mut self, from: &Self::Buffer, at: usize, bytes: &mut [u8]) -> Result<(), OpsError>;

    /// The device's free memory.
    fn free_bytes(&self) -> Result<usize, OpsError>;

    /// Finds the fastest ways to compute products with this weight and up to so many rows, before
    /// anybody waits for them. What input and output hold afterwards is undefined.
    fn prepare(&mut self, op: Gemm<'_, Self::Buffer>) -> Result<(), OpsError>;

    fn embed(&mut self, op: Embed<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn norm(&mut self, op: Norm<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn gemm(&mut self, op: Gemm<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn rotate_store(&mut self, op: RotateStore<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn attend(&mut self, op: Attend<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn gate(&mut self, op: Gate<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn draw(&mut self, op: Draw<'_, Self::Buffer>) -> Result<(), OpsError>;
    fn fill_random(&mut self, op: FillRandom<'_, Self::Buffer>) -> Result<(), OpsError>;

    /// Runs `step`, or what was recorded of it under this key. `step` calls operations only, and
    /// neither allocates, writes nor reads.
    fn recorded(
        &mut self,
        key: RecordKey,
        step: &mut dyn FnMut(&mut Self) -> Result<(), OpsError>,
    ) -> Result<(), OpsError>;
}

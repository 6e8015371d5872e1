//! The `initialized` element: what the run was configured with.

/// Configuration of a run. The typed fields are what a tool needs; everything else the log stated is in
/// `attributes`, and nothing is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Initialized {
    /// Policy, `-Xgcpolicy:metronome`.
    pub policy: Option<String>,
    /// Largest heap.
    pub heap_max_bytes: Option<u64>,
    /// Heap at the start.
    pub heap_initial_bytes: Option<u64>,
    /// Collector threads.
    pub gc_threads: Option<u64>,
    /// Size of a region.
    pub region_bytes: Option<u64>,
    /// Number of regions.
    pub region_count: Option<u64>,
    /// Size of an arraylet leaf.
    pub leaf_bytes: Option<u64>,
    /// Length of a quantum as planned (`beatsPerMeasure`, printed in whole microseconds).
    pub beat_ns: Option<u64>,
    /// Window of the utilization target (`timeInterval`, printed in whole microseconds).
    pub window_ns: Option<u64>,
    /// Utilization target; the old attribute has whole percents, this project's own has four decimals.
    pub target_ppm: Option<u32>,
    /// Use of memory at which a cycle starts.
    pub trigger_bytes: Option<u64>,
    /// Head room added to the trigger after a cycle.
    pub headroom_bytes: Option<u64>,
    /// Memory of the machine.
    pub physical_memory_bytes: Option<u64>,
    /// Processors.
    pub cpus: Option<u64>,
    /// Architecture.
    pub architecture: Option<String>,
    /// Operating system.
    pub os: Option<String>,
    /// Its version.
    pub os_version: Option<String>,
    /// Options: name and value.
    pub vmargs: Vec<(String, Option<String>)>,
    /// Everything else.
    pub attributes: Vec<Attribute>,
}

/// One further attribute of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Where it stood.
    pub section: Section,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Parts of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Section {
    /// Directly in `initialized`.
    #[default]
    Main,
    /// `region`.
    Region,
    /// `metronome`.
    Metronome,
    /// `system`.
    System,
    /// `vmargs`, which holds options and no attributes.
    VmArgs,
    /// This project's own, `metronome-attributes`.
    Own,
}

impl Section {
    /// Every section with an element of its own.
    pub(crate) const NESTED: [Self; 5] =
        [Self::Region, Self::Metronome, Self::System, Self::VmArgs, Self::Own];

    /// Name of the element; none for [`Self::Main`].
    pub const fn element(self) -> Option<&'static str> {
        match self {
            Self::Main => None,
            Self::Region => Some("region"),
            Self::Metronome => Some("metronome"),
            Self::System => Some("system"),
            Self::VmArgs => Some("vmargs"),
            Self::Own => Some("metronome-attributes"),
        }
    }
}

//! The space-time contract of a non-moving snapshot collector, as pure functions.
//!
//! With maximum live bytes m, allocation rate a while the mutators run, trace rate R and sweep rate S (per
//! second of *collector* time), mutator utilization u during a cycle, heap H and fragmentation f:
//!
//! - collector time of a cycle `T = m/R + H/S`,
//! - allocation during it `A = a * T * u/(1-u)`,
//! - space `H >= (1+f)(m + 2A)`: what a cycle's mutators allocate survives that cycle untouched, and the
//!   next cycle needs the same room again before the first share of it is freed,
//! - trigger: start when less than A is free.
//!
//! Bacon, Cheng, Rajan (POPL 2003) state `m + 3A`; the third A pays for relocation, which this collector
//! does not do. Shares are parts per million (ppm), times nanoseconds, rates bytes per second. Every result
//! is rounded to the safe side: heaps and times up, utilizations down.

use crate::arith::{PPM, SECOND_NS, clamp, mul_div, mul_div_ceil};
use std::fmt;

/// What a program does and what the collector can do on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// Most bytes live at the start of a cycle (m).
    pub live_bytes: u64,
    /// Bytes allocated per second of mutator time (a), the maximum over a cycle.
    pub allocation_rate: u64,
    /// Bytes marked per second of collector time (R).
    pub trace_rate: u64,
    /// Bytes of heap swept per second of collector time (S).
    pub sweep_rate: u64,
    /// Part of the heap that fragmentation may take, on top, in ppm (f).
    pub fragmentation_ppm: u32,
}

/// Why a contract has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContractError {
    /// A rate is 0: such a collector never finishes. Give the measured trace and sweep rates.
    RateZero,
    /// The utilization is not within 0 to 999 999 ppm: a stop-the-world collector needs a share.
    Utilization {
        /// The value given.
        utilization_ppm: u32,
    },
    /// `2k(1+f) < S` with `k = a*u/(1-u)` fails: sweeping the added heap takes longer than filling it, so no
    /// heap is large enough. Lower the utilization or the allocation rate, or sweep faster.
    NoHeapSuffices,
    /// The answer or a step towards it does not fit: the numbers are beyond any machine.
    TooLarge,
    /// `H > (1+f) m` fails: the heap cannot hold the live data and anything else.
    HeapBelowLive {
        /// Smallest heap that leaves any room.
        least_heap_bytes: u64,
    },
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContractError::RateZero => {
                write!(f, "trace_rate or sweep_rate is 0: give the measured rates in bytes per second")
            }
            ContractError::Utilization { utilization_ppm } => {
                write!(f, "utilization_ppm is {utilization_ppm}: set it to a value from 0 to 999999")
            }
            ContractError::NoHeapSuffices => write!(
                f,
                "no heap is large enough: sweep_rate must exceed 2 (1+f) * allocation_rate * u/(1-u); \
                 lower the utilization or the allocation rate"
            ),
            ContractError::TooLarge => {
                write!(f, "the result does not fit: check the units (bytes, bytes per second)")
            }
            ContractError::HeapBelowLive { least_heap_bytes } => write!(
                f,
                "the heap does not hold the live data: set it above {least_heap_bytes} bytes or lower live_bytes"
            ),
        }
    }
}

impl std::error::Error for ContractError {}

impl Contract {
    /// Collector time of a cycle in a heap of `heap_bytes`, in nanoseconds (equation 2).
    /// `u64::MAX` if a rate is 0.
    #[must_use]
    pub fn cycle_ns(&self, heap_bytes: u64) -> u64 {
        let mark = mul_div_ceil(self.live_bytes, SECOND_NS, self.trace_rate);
        mark.saturating_add(mul_div_ceil(heap_bytes, SECOND_NS, self.sweep_rate))
    }

    /// Bytes allocated during a cycle (A, equation 4) at `utilization_ppm`.
    ///
    /// # Errors
    /// [`ContractError::RateZero`], [`ContractError::Utilization`].
    pub fn cycle_allocation(&self, heap_bytes: u64, utilization_ppm: u32) -> Result<u64, ContractError> {
        self.check()?;
        let (u, rest) = split(utilization_ppm)?;
        let mutator_ns = mul_div_ceil(self.cycle_ns(heap_bytes), u, rest);
        Ok(mul_div_ceil(self.allocation_rate, mutator_ns, SECOND_NS))
    }

    /// Occupancy at which the next cycle must start in a heap of `heap_bytes` (equation 8): what the heap
    /// holds without fragmentation, less A. 0 means that cycles must follow each other.
    ///
    /// # Errors
    /// As [`cycle_allocation`](Self::cycle_allocation).
    pub fn trigger_bytes(&self, heap_bytes: u64, utilization_ppm: u32) -> Result<u64, ContractError> {
        let allocation = self.cycle_allocation(heap_bytes, utilization_ppm)?;
        Ok(usable_bytes(heap_bytes, self.fragmentation_ppm).saturating_sub(allocation))
    }

    fn check(&self) -> Result<(), ContractError> {
        if self.trace_rate == 0 || self.sweep_rate == 0 { Err(ContractError::RateZero) } else { Ok(()) }
    }

    fn fragmented_ppm(&self) -> u64 {
        PPM + u64::from(self.fragmentation_ppm)
    }
}

/// What a heap of `heap_bytes` can hold if fragmentation takes its share: `H / (1+f)`, rounded down.
#[must_use]
pub fn usable_bytes(heap_bytes: u64, fragmentation_ppm: u32) -> u64 {
    mul_div(heap_bytes, PPM, PPM + u64::from(fragmentation_ppm))
}

/// The smallest heap, in bytes, in which the mutators keep `utilization_ppm` during a cycle and never run
/// out of memory: `H = (1+f) m (1 + 2k/R) / (1 - 2k(1+f)/S)` with `k = a*u/(1-u)` (equation 6 with
/// fragmentation).
///
/// # Errors
/// [`ContractError::RateZero`], [`Utilization`](ContractError::Utilization),
/// [`NoHeapSuffices`](ContractError::NoHeapSuffices), [`TooLarge`](ContractError::TooLarge).
///
/// ```
/// use metronome_scheduler::contract::{Contract, heap_for_utilization};
/// let program = Contract {
///     live_bytes: 100_000_000,
///     allocation_rate: 100_000_000,
///     trace_rate: 500_000_000,
///     sweep_rate: 100_000_000_000,
///     fragmentation_ppm: 0,
/// };
/// let heap = heap_for_utilization(&program, 700_000)?;
/// assert!((194_000_000..196_000_000).contains(&heap)); // 1.95 times the live data
/// # Ok::<(), metronome_scheduler::ContractError>(())
/// ```
pub fn heap_for_utilization(contract: &Contract, utilization_ppm: u32) -> Result<u64, ContractError> {
    /// Fixed point for 2k(1+f)/S: fine enough for the denominator to be exact to a billionth.
    const ONE: u128 = 1_000_000_000_000;
    contract.check()?;
    let (u, rest) = split(utilization_ppm)?;
    let wide = |factors: &[u64]| {
        factors
            .iter()
            .try_fold(1u128, |product, &x| product.checked_mul(x.into()))
            .ok_or(ContractError::TooLarge)
    };
    let fragmented = contract.fragmented_ppm();
    let (a, m) = (contract.allocation_rate, contract.live_bytes);
    // m (1 + 2k/R), in bytes.
    let marked = wide(&[2, a, u, m])?.div_ceil(wide(&[rest, contract.trace_rate])?);
    let marked = u64::try_from(marked + u128::from(m)).map_err(|_| ContractError::TooLarge)?;
    // 2k(1+f)/S, in units of ONE: u/rest needs no unit, (1+f) carries PPM, PPM * PPM is ONE.
    let swept = wide(&[2, a, u, fragmented, PPM])?.div_ceil(wide(&[rest, contract.sweep_rate])?);
    let left = ONE.checked_sub(swept).filter(|&left| left > 0).ok_or(ContractError::NoHeapSuffices)?;
    let heap = wide(&[fragmented, marked, PPM])?.div_ceil(left);
    u64::try_from(heap).map_err(|_| ContractError::TooLarge)
}

/// The largest utilization, in ppm, that a heap of `heap_bytes` allows during a cycle:
/// `k = (H/(1+f) - m) / (2T)`, `u = k/(a+k)` (equation 7). A program that does not allocate gets a million.
///
/// # Errors
/// [`ContractError::RateZero`], [`ContractError::HeapBelowLive`].
pub fn utilization_for_heap(contract: &Contract, heap_bytes: u64) -> Result<u32, ContractError> {
    contract.check()?;
    let m = contract.live_bytes;
    let usable = usable_bytes(heap_bytes, contract.fragmentation_ppm);
    let Some(room) = usable.checked_sub(m).filter(|&room| room > 0) else {
        return Err(ContractError::HeapBelowLive {
            least_heap_bytes: mul_div_ceil(m.saturating_add(1), contract.fragmented_ppm(), PPM),
        });
    };
    // u = room / (room + 2aT). Both in millionths of a byte where that fits: at a high utilization a byte of
    // rounding in 2aT would weigh u/(1-u) bytes of heap.
    let allocated = |bytes: u64, rate: u64| {
        let product = u128::from(contract.allocation_rate) * u128::from(bytes);
        let rate = u128::from(rate);
        match product.checked_mul(2 * u128::from(PPM)) {
            Some(scaled) => scaled.div_ceil(rate),
            None => product.div_ceil(rate).saturating_mul(2 * u128::from(PPM)),
        }
    };
    let allocated =
        allocated(m, contract.trace_rate).saturating_add(allocated(heap_bytes, contract.sweep_rate));
    let room = u128::from(room) * u128::from(PPM);
    let share = room * u128::from(PPM) / room.saturating_add(allocated);
    Ok(clamp(share).min(PPM) as u32)
}

/// Average utilization over many cycles if each starts at the trigger: between cycles the collector is idle
/// while the mutators fill the heap from `m + A` to the trigger.
///
/// `None` if the heap does not allow `utilization_ppm` (then cycles follow each other and the average is what
/// [`utilization_for_heap`] gives at most).
///
/// # Errors
/// As [`Contract::cycle_allocation`].
pub fn average_utilization(
    contract: &Contract,
    heap_bytes: u64,
    utilization_ppm: u32,
) -> Result<Option<u32>, ContractError> {
    let trigger = contract.trigger_bytes(heap_bytes, utilization_ppm)?;
    let allocation = contract.cycle_allocation(heap_bytes, utilization_ppm)?;
    if trigger < contract.live_bytes.saturating_add(allocation) {
        return Ok(None);
    }
    // A whole period fills from m to the trigger: A of it during the cycle, the rest between cycles.
    let filled = u128::from(trigger - contract.live_bytes);
    let collector = u128::from(contract.cycle_ns(heap_bytes)) * u128::from(contract.allocation_rate);
    let mutator = filled * u128::from(SECOND_NS);
    let whole = mutator.saturating_add(collector);
    let share = mutator.saturating_mul(u128::from(PPM)).checked_div(whole).unwrap_or(u128::from(PPM));
    Ok(Some(clamp(share).min(PPM) as u32))
}

/// `(u, 1 - u)` in ppm.
fn split(utilization_ppm: u32) -> Result<(u64, u64), ContractError> {
    match PPM.checked_sub(u64::from(utilization_ppm)) {
        Some(rest) if rest > 0 => Ok((u64::from(utilization_ppm), rest)),
        _ => Err(ContractError::Utilization { utilization_ppm }),
    }
}

//! What a heap costs that nobody uses: CPU time of each of its threads.

use metronome_gc::Heap;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// CPU time in nanoseconds of this process's threads, by name. Empty where the system does not tell.
fn threads() -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return out };
    for task in tasks.flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let cpu = read("schedstat").split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        if let Some(cpu) = cpu {
            *out.entry(read("comm").trim().to_owned()).or_insert(0) += cpu;
        }
    }
    out
}

/// A heap of each kind for so many seconds, one after the other.
pub(crate) fn table(seconds: u64) -> Result<String, String> {
    let mut out = format!("\nCPU time of idle heaps, each for {seconds} s, in % of a CPU\n");
    for suppress in ["false", "true"] {
        let built = Heap::builder().set("suppress-idle-ticks", suppress).build();
        let heap = built.map_err(|e| e.to_string())?;
        std::thread::sleep(Duration::from_millis(200));
        let before = threads();
        let ticks = heap.stats().alarm_ticks;
        std::thread::sleep(Duration::from_secs(seconds));
        let after = threads();
        let ticks = heap.stats().alarm_ticks - ticks;
        let percent = |ns: u64| ns as f64 / (seconds as f64 * 1e7);
        let mut sum = 0;
        out += &format!("suppress-idle-ticks={suppress} ({ticks} ticks):");
        for (name, ns) in after.iter().filter(|(name, _)| name.starts_with("metronome-")) {
            let spent = ns - before.get(name).copied().unwrap_or(0);
            sum += spent;
            out += &format!(" {} {:.3},", name.trim_start_matches("metronome-"), percent(spent));
        }
        out += &format!(" together {:.3}\n", percent(sum));
    }
    Ok(out)
}

//! What is wrong with a mis-tuned run is on the first screen of its report, in words that somebody understands who has never
//! seen the tool: 24 lines of 80 columns in a terminal, 1280 by 720 pixels of a page.

use crate::common::{Scratch, browser, output, text};
use metronome_gc::{Collect, Heap, Root, Slot, Trace};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first screen of the report, as a terminal wraps it.
fn in_a_terminal(log: &str) -> String {
    let out = output(&["report", log]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all = text(&out.stdout);
    let rows = all.lines().flat_map(|l| match l.chars().collect::<Vec<_>>() {
        l if l.is_empty() => vec![String::new()],
        l => l.chunks(80).map(|c| c.iter().collect()).collect(),
    });
    rows.take(24).map(|l: String| l + "\n").collect()
}

/// The texts of a page that are to be seen without scrolling.
const ABOVE_THE_FOLD: &str = r##"<script>
window.onload = () => {
  const seen = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    if (box.width > 0 && box.bottom <= 720) seen.push(walker.currentNode.data);
  }
  const out = document.createElement("pre");
  out.id = "told";
  out.textContent = seen.join("");
  document.body.append(out);
};
</script>"##;

/// The first screen of the page: as a browser shows it; without a browser the verdict and the first findings, which come
/// first.
fn on_the_page(dir: &Scratch, log: &str) -> String {
    let out = output(&["report", log, "--html", "-"]);
    let page = text(&out.stdout);
    if let Some(seen) = browser::told(dir, &page, ABOVE_THE_FOLD) {
        assert!(seen.contains("Metronome report"), "{seen}");
        return seen;
    }
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let doc = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let words = |n: roxmltree::Node<'_, '_>| -> String {
        n.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect()
    };
    let verdict = doc.descendants().find(|n| n.attribute("id") == Some("verdict")).unwrap();
    let findings = doc.descendants().filter(|n| n.has_tag_name("article"));
    std::iter::once(verdict).chain(findings.take(1)).map(words).collect()
}

/// Both first screens have all these words.
fn both_say(dir: &Scratch, log: &str, words: &[&str]) {
    for (screen, kind) in [(in_a_terminal(log), "terminal"), (on_the_page(dir, log), "page")] {
        // Where a line ends does not matter.
        let joined = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        for w in words {
            assert!(joined.contains(w), "{kind}: {w:?} is not in:\n{screen}");
        }
    }
}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

/// One heap at a time, and none beside threads that are in its way by purpose.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collections in a heap whose live objects or handles grow by so many before each.
fn grow(log: &str, objects: usize, handles: usize) {
    let heap =
        Heap::builder().heap_bytes(64 << 20).set("verbose-gc", log).set("verify", "off").build().unwrap();
    heap.enter(|m| {
        let first = m.alloc(NodeInit { next: None }).unwrap();
        let mut list = Root::new(m, first);
        let mut kept = Vec::new();
        for _ in 0..24 {
            for _ in 0..objects {
                let next = Some(list.get(m));
                let node = m.alloc(NodeInit { next }).unwrap();
                list = Root::new(m, node);
                m.safepoint();
            }
            for _ in 0..handles {
                let node = list.get(m);
                kept.push(Root::new(m, node));
                m.safepoint();
            }
            m.collect(Collect::Cycle).unwrap();
        }
    });
}

#[test]
fn a_leak() {
    let _alone = alone();
    let dir = Scratch::new("leak");
    let log = dir.path("leak.xml");
    grow(&log, 20_000, 0);
    both_say(&dir, &log, &["Look first at", "memory in use grows: a leak? (R10)"]);
}

#[test]
fn a_deep_handle_table() {
    let _alone = alone();
    let dir = Scratch::new("handles");
    let log = dir.path("handles.xml");
    grow(&log, 0, 20_000);
    both_say(&dir, &log, &["Look first at", "deep handle tables (O3)"]);
}

#[test]
fn a_mutator_that_does_not_poll_by_its_name() {
    let _alone = alone();
    let dir = Scratch::new("deaf");
    let log = dir.path("gc.xml");
    let heap = Heap::builder()
        .set("verify", "off")
        .heap_bytes(8 << 20)
        .set("cycle-interval", "5ms")
        .set("verbose-gc", &log)
        .build()
        .unwrap();
    let inside = heap.clone();
    let deaf = std::thread::Builder::new().name("deaf-worker".into()).spawn(move || {
        // Inside the heap, and by no pause point until enough stops were given up.
        inside.enter(|_| while inside.stats().stops_cancelled < 10 {});
    });
    deaf.unwrap().join().unwrap();
    drop(heap);
    both_say(&dir, &log, &["Look first at", "a mutator does not poll (O1)", "deaf-worker", "poll()"]);
}

#[test]
fn a_trigger_that_is_too_late() {
    let _alone = alone();
    let dir = Scratch::new("late");
    let log = dir.path("gc.xml");
    let heap = Heap::builder()
        .set("verify", "off")
        .heap_bytes(8 << 20)
        .set("trigger", "95%")
        .set("exhaustion", "synchronous")
        .set("verbose-gc", &log)
        .build()
        .unwrap();
    heap.enter(|m| {
        // Garbage, as fast as it can be made, until the collector has lost some races.
        while heap.stats().synchronous_collections < 4 {
            for _ in 0..10_000 {
                if m.alloc(NodeInit { next: None }).is_err() {
                    m.safepoint();
                }
            }
        }
    });
    drop(heap);
    both_say(&dir, &log, &["out of memory", "paced"]);
}

/// A third of a small heap is live, and the rest is filled as fast as it can be.
#[test]
fn a_heap_that_is_too_small() {
    let dir = Scratch::new("small");
    let log = dir.path("gc.xml");
    for attempt in 0..5 {
        let _alone = alone();
        fill_a_small_heap(&log);
        let found = text(&output(&["advise", &log, "--json", "-"]).stdout);
        let has = |rule: &str| found.contains(&format!("\"{rule}\""));
        // A collector that was held up comes first, and then no heap is named.
        if !(has("O2") || has("R8")) {
            return both_say(&dir, &log, &["Look first at", "the heap is small: it has 4.0 MiB, and"]);
        }
        println!("run {attempt}: this host held the collector up, which comes first");
    }
    println!("skipped: this host holds the collector up");
}

fn fill_a_small_heap(log: &str) {
    let heap =
        Heap::builder().set("verify", "off").heap_bytes(4 << 20).set("verbose-gc", log).build().unwrap();
    heap.enter(|m| {
        let first = m.alloc(NodeInit { next: None }).unwrap();
        let mut list = Root::new(m, first);
        for _ in 0..40_000 {
            let next = Some(list.get(m));
            let node = m.alloc(NodeInit { next }).unwrap();
            list = Root::new(m, node);
            m.safepoint();
        }
        while heap.stats().departures < 20 {
            // Statistics are no pause point: they are looked at seldom.
            for _ in 0..20_000 {
                let _ = m.alloc(NodeInit { next: None });
                m.safepoint();
            }
        }
    });
}

/// The part of the wall time of its work that the collector's thread did not get, in percent, by the log's own words.
fn taken_percent(log: &str) -> f64 {
    let text = std::fs::read_to_string(log).unwrap();
    let quanta: String = text.lines().filter(|l| l.contains("<metronome-quanta ")).collect();
    let sum = |name: &str| -> f64 {
        let begin = format!(" {name}=\"");
        let values = quanta.split(&begin).skip(1);
        values.map(|v| v.split('"').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    100.0 * (1.0 - sum("cpuMs") / sum("workMs"))
}

/// The collector shares one processor with three threads that do nothing else.
#[test]
fn a_preempted_collector() {
    let _alone = alone();
    let dir = Scratch::new("preempted");
    let log = dir.path("gc.xml");
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut one = CpuSet::new();
                one.set(cpu).unwrap();
                sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                // Relaxed: a flag that carries no data.
                while busy.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let heap = Heap::builder()
            .set("verify", "off")
            .heap_bytes(32 << 20)
            .set("cycle-interval", "5ms")
            .set("gc-cpu", &cpu.to_string())
            .set("gc-priority", "0")
            .set("alarm-priority", "0")
            .set("quantum", "5ms")
            .set("window", "50ms")
            .set("verbose-gc", &log)
            .build()
            .unwrap();
        heap.enter(|m| {
            let first = m.alloc(NodeInit { next: None }).unwrap();
            let mut list = Root::new(m, first);
            for _ in 0..200_000 {
                let next = Some(list.get(m));
                let node = m.alloc(NodeInit { next }).unwrap();
                list = Root::new(m, node);
                m.safepoint();
            }
            while heap.stats().quanta < 60 {
                m.safepoint();
            }
        });
        // Relaxed: as above.
        busy.store(false, Relaxed);
    });
    if taken_percent(&log) < 40.0 {
        println!(
            "skipped: this host's scheduler took {:.0} % of the collector's time only",
            taken_percent(&log)
        );
        return;
    }
    both_say(&dir, &log, &["Look first at", "the collector's thread is preempted (O2)"]);
}

//! A heap that is tapped and served: recording, traces and stream against its own statistics.
#![forbid(unsafe_code)]

use metronome_gc::{Heap, Root, Slot, Stats, Trace};
use metronome_live::sink::{Chrome, Lines, TuningFork};
use metronome_live::{Client, Event, Figures, Record, Server, input};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
    fill: [u64; 6],
}

fn work(heap: &Heap, cycles: u64) {
    std::thread::scope(|s| {
        for i in 0..2 {
            let body = || {
                heap.enter(|m| {
                    while heap.glance().cycles < cycles {
                        let mut kept = Root::new(m, m.alloc(NodeInit { next: None, fill: [0; 6] }).unwrap());
                        for i in 0..1000 {
                            let Ok(n) = m.alloc(NodeInit { next: Some(kept.get(m)), fill: [i; 6] }) else {
                                break;
                            };
                            kept = Root::new(m, n);
                        }
                        m.safepoint();
                    }
                });
            };
            std::thread::Builder::new().name(format!("worker-{i}")).spawn_scoped(s, body).unwrap();
        }
    });
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("metronome-live-{}-{name}", std::process::id()))
}

fn read(path: &Path) -> Vec<Record> {
    input::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

fn figures<'a>(records: impl IntoIterator<Item = &'a Record>) -> Figures {
    let mut f = Figures::new();
    records.into_iter().for_each(|r| f.take(r));
    f
}

fn agree(f: &Figures, s: &Stats, what: &str) {
    // The last quantum may be told after the statistics were taken, at closing.
    assert!((s.quanta..=s.quanta + 1).contains(&f.quanta), "{what}: {} quanta of {}", f.quanta, s.quanta);
    assert!(f.charged_ns >= s.collector_ns * 9 / 10, "{what}: {} ns of {}", f.charged_ns, s.collector_ns);
    assert!((s.cycles..=s.cycles + 1).contains(&f.cycles), "{what}: {} cycles of {}", f.cycles, s.cycles);
    assert_eq!((f.lost, f.synchronous), (0, s.synchronous_collections), "{what}");
    let window = s.mmu.iter().find(|m| m.window_ns == s.window_ns).unwrap();
    // Kept by the same arithmetic over the same pauses, up to the last one.
    assert!(f.mmu_ppm().0 <= window.charged_ppm, "{what}: {:?} {window:?}", f.mmu_ppm());
    assert!(f.mutators.keys().any(|m| m.starts_with("worker-")), "{what}: {:?}", f.mutators);
    assert_eq!(f.bookmark.as_deref(), Some("half \"way\" \u{1d11e}"), "{what}");
    assert!(f.ended, "{what}");
}

#[test]
fn all_outputs_hold_what_the_heap_counted_itself() {
    let [lines, fork, chrome] = ["a.jsonl", "a.trace", "a.json"].map(path);
    let heap = Heap::builder().set("heap", "8M").build().unwrap();
    let create = |p: &PathBuf| File::create(p).unwrap();
    let mut server = Server::of_heap(
        &heap,
        "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap(),
        vec![
            ("recording".into(), Box::new(Lines::new(create(&lines)))),
            ("trace".into(), Box::new(TuningFork::new(create(&fork)))),
            ("chrome".into(), Box::new(Chrome::new(create(&chrome)))),
            (
                "full disk".into(),
                Box::new(Lines::new(File::options().write(true).open("/dev/full").unwrap())),
            ),
        ],
    )
    .unwrap();
    let mut client = Client::connect(&server.addr().to_string(), None).unwrap();
    work(&heap, 15);
    heap.bookmark("half \"way\" \u{1d11e}");
    work(&heap, 30);
    let stats = heap.stats();
    drop(heap);
    // An output that fails is told, and the others do not mind.
    let failed = server.finish_outputs();
    assert_eq!(failed.iter().map(|f| &*f.0).collect::<Vec<_>>(), ["full disk"]);

    let recorded = read(&lines);
    agree(&figures(&recorded), &stats, "recording");
    let mut streamed: Vec<Record> = Vec::new();
    while streamed.last().is_none_or(|r| r.event != Event::End) {
        streamed.extend(client.next_records().unwrap().expect("the page outlives the heap"));
    }
    assert_eq!(streamed, recorded);
    // Whole, and in the same order.
    assert_eq!(read(&fork), recorded);
    let trace: serde_json::Value =
        serde_json::from_reader(BufReader::new(File::open(&chrome).unwrap())).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
    let quanta = slices.filter(|e| e["tid"] == 1 && e["name"] != "stop").count() as u64;
    assert_eq!(quanta, figures(&recorded).quanta);
    for p in [lines, fork, chrome] {
        std::fs::remove_file(p).unwrap();
    }
}

#[test]
fn serving_does_not_keep_a_heap_open_and_may_end_before_it() {
    use metronome_live::Serve;
    let heap = Heap::builder().set("heap", "4M").build().unwrap();
    let addr: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = heap.serve(addr).unwrap();
    let second = heap.serve(addr).unwrap();
    assert_ne!(server.addr(), second.addr());
    assert!(heap.serve(second.addr()).is_err(), "the port is taken");
    drop(server);
    work(&heap, 1);
    let mut client = Client::connect(&second.addr().to_string(), None).unwrap();
    drop(heap);
    let mut all = Vec::new();
    while all.last().is_none_or(|r: &Record| r.event != Event::End) {
        all.extend(client.next_records().unwrap().unwrap());
    }
    assert!(matches!(all[0].event, Event::Begin(_)));
    assert_eq!(all.iter().filter(|r| matches!(r.event, Event::Begin(_))).count(), 1);
}

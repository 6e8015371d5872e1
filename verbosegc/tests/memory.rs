//! The reader's memory does not depend on what is read (INV-LOG-BOUNDED). One test only: the count is global.

use metronome_verbosegc::reader::Reader;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every request goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: plain counts, read by the thread that allocates.
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `piece` over and over after `head`.
struct Endless {
    head: &'static [u8],
    piece: &'static [u8],
    at: usize,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        let (from, restart) = if self.head.is_empty() { (self.piece, true) } else { (self.head, false) };
        let rest = &from[self.at..];
        let n = rest.len().min(buf.len()).min(self.left);
        buf[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        self.left -= n;
        if self.at == from.len() {
            self.at = 0;
            if !restart {
                self.head = b"";
            }
        }
        Ok(n)
    }
}

/// Bytes that reading may need.
const LIMIT: usize = 3 << 20;

#[test]
fn hostile_logs_of_any_length_need_the_same_memory() {
    let quanta = b"<quanta quantumCount=\"1\" quantumType=\"mark\" />\n";
    let cases: [(&'static [u8], &'static [u8]); 13] = [
        (b"<gc-op id=\"1\" type=\"", b"x"),
        (b"<gc-op ", b"a=\"\" "),
        (b"<gc-op ", b"& "),
        (b"<", b"n"),
        (b"", b"<"),
        (b"", b"other output\n"),
        (b"<!--", b" comment "),
        (b"", b"<unknown a=\"1\">"),
        (b"<initialized>", b"<vmarg name=\"n\" value=\"v\" />"),
        (b"<initialized>", b"<attribute name=\"n\" value=\"v\" />"),
        (b"<gc-op type=\"heartbeat\">", quanta),
        (b"<verbosegc version=\"1\"><af>", b"<af/> text "),
        (b"", b"<gc type=\"trigger start\" id=\"1\" intervalms=\"1.0\" />"),
    ];
    for (head, piece) in cases {
        let peak = |left: usize| {
            PEAK.store(NOW.load(Relaxed), Relaxed);
            let before = NOW.load(Relaxed);
            let mut items = 0_u64;
            for item in Reader::new(BufReader::new(Endless { head, piece, at: 0, left })) {
                item.unwrap();
                items += 1;
            }
            assert!(items > 0);
            PEAK.load(Relaxed) - before
        };
        let bytes = peak(4 << 20);
        let name = String::from_utf8_lossy(head).into_owned() + &String::from_utf8_lossy(piece);
        assert!(bytes < LIMIT, "{name}: {bytes} bytes");
    }
    // A reader that kept what it read would be found.
    let piece = cases[cases.len() - 1].1;
    let before = NOW.load(Relaxed);
    let kept: Vec<_> = Reader::new(BufReader::new(Endless { head: b"", piece, at: 0, left: 4 << 20 }))
        .map(Result::unwrap)
        .collect();
    assert!(NOW.load(Relaxed) - before > LIMIT, "{} items", kept.len());
}

//! The area itself: ranges, exhaustion, claims.

use super::*;

fn area(bytes: u64) -> ImmortalArea {
    ImmortalArea::new(bytes, false).unwrap().0
}

/// Address and end of a value.
fn range<T>(v: Immortal<T>) -> (usize, usize) {
    let at = std::ptr::from_ref(Immortal::as_static(v)).addr();
    (at, at + size_of::<T>())
}

#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "its size counts")] u8);
#[repr(align(64))]
struct Line(u8);

#[test]
fn values_are_aligned_disjoint_and_keep_their_content() {
    let a = area(64 << 10);
    let byte = a.immortal(7u8).unwrap();
    let line = a.immortal(Line(8)).unwrap();
    let page = a.immortal(Page(9)).unwrap();
    let text = a.immortal(String::from("for ever")).unwrap();
    assert_eq!(range(line).0 % 64, 0);
    assert_eq!(range(page).0 % 4096, 0);
    let mut all = [range(byte), range(line), range(page), range(text)];
    all.sort_unstable();
    assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "{all:?}");
    assert_eq!((*byte, Immortal::as_static(line).0, text.as_str()), (7, 8, "for ever"));
    assert_eq!(a.used_bytes(), 8192 + size_of::<String>() as u64);
    // The values outlive the area.
    drop(a);
    assert_eq!((*byte, Immortal::as_static(line).0, text.as_str()), (7, 8, "for ever"));
}

#[test]
fn an_exhausted_area_says_so_and_gives_the_value_back() {
    let a = area(4096);
    a.immortal([0u8; 4000]).unwrap();
    a.immortal(String::from("24 bytes")).unwrap();
    let e = a.immortal([5u8; 100]).unwrap_err();
    assert_eq!(e.value, [5u8; 100]);
    assert_eq!((e.requested_bytes, e.used_bytes, e.size_bytes), (100, 4024, 4096));
    assert!(
        e.to_string().contains("100 bytes (4024 of 4096") && e.to_string().contains("option immortal"),
        "{e}"
    );
    // What still fits is still to be had.
    a.immortal([0u8; 72]).unwrap();
    assert_eq!(a.immortal(1u8).unwrap_err().used_bytes, 4096);
    assert!(a.immortal(()).is_ok());
}

#[test]
fn an_area_of_nothing_holds_nothing() {
    let a = area(0);
    assert_eq!((a.size_bytes(), a.used_bytes()), (0, 0));
    assert!(a.immortal(1u8).is_err());
    assert!(a.immortal(()).is_ok());
}

#[test]
fn impossible_sizes_are_errors() {
    assert!(ImmortalArea::new(u64::MAX, false).is_err());
    assert!(ImmortalArea::new(1 << 60, false).is_err());
}

/// Whether no two of these ranges overlap.
fn disjoint(mut ranges: Vec<(usize, usize)>) -> bool {
    ranges.sort_unstable();
    ranges.windows(2).all(|w| w[0].1 <= w[1].0)
}

/// A claim that is forgotten, as by a thread that read the counter before another one and wrote it after, is handed out
/// again, and that is found.
#[test]
fn a_range_handed_out_again_is_found() {
    for forgotten in [false, true] {
        let a = area(4096);
        let mut ranges = vec![range(a.immortal(1u64).unwrap())];
        let used = a.used.load(Relaxed);
        ranges.push(range(a.immortal(2u64).unwrap()));
        if forgotten {
            a.used.store(used, Relaxed);
        }
        ranges.push(range(a.immortal(3u64).unwrap()));
        assert_eq!(disjoint(ranges), !forgotten);
    }
}

/// INV-IMMORTAL-DISJOINT, by the exchange and by the addition, up to the last byte.
#[test]
fn threads_get_disjoint_ranges() {
    for tries in [TRIES, 1, 0] {
        let a = area(256 << 10);
        let mut all: Vec<(usize, usize)> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4u32)
                .map(|k| {
                    let a = &a;
                    s.spawn(move || {
                        let mut mine = Vec::new();
                        for i in 0.. {
                            let layout =
                                Layout::from_size_align(1 + (i * 7 + k as usize) % 90, 1 << (i % 7)).unwrap();
                            let Ok(c) = a.claim_within(layout, tries) else { break };
                            assert_eq!(c.at.addr() % layout.align(), 0);
                            mine.push((c.at.addr(), c.at.addr() + layout.size()));
                        }
                        mine
                    })
                })
                .collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(disjoint(all.clone()));
        let base = a.memory.as_ref().unwrap().base().as_ptr().addr();
        assert!(all[0].0 >= base && all[all.len() - 1].1 <= base + a.size);
        assert!(all.len() > 1000 && a.used_bytes() <= a.size_bytes());
    }
}

#[test]
fn a_claim_is_filled_in_order() {
    let a = area(4096);
    let (layout, _) = Layout::new::<u8>().extend(Layout::array::<u64>(3).unwrap()).unwrap();
    let mut claim = a.claim(layout).unwrap();
    let first = claim.place(1u8);
    let mut n = 0;
    let rest = claim.place_all(3, || {
        n += 1;
        n as u64
    });
    assert_eq!((*first, &*rest), (1, &[1u64, 2, 3][..]));
    assert_eq!(a.used_bytes(), 32);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| claim.place(1u8))).is_err());
}

//! An allocation that fails at the N-th call, for each N: the program gets an error, or goes on; never a panic.

use metronome_gc::testing::{Phase, TestHeap};
use metronome_gc::{
    AllocError, Config, EnterError, GcArray, Global, Mutator, Payload, Root, Slot, Trace, Weak,
};

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

#[derive(Debug)]
enum Failed {
    Alloc,
    Enter,
}

impl From<AllocError> for Failed {
    fn from(_: AllocError) -> Failed {
        Failed::Alloc
    }
}

/// A program that comes by every allocating entry, with a cycle under way in its second half.
fn program(heap: &TestHeap) -> Result<(), Failed> {
    let list = |m: &Mutator<'_>, n: u64| -> Result<Root<Node>, AllocError> {
        let mut head = m.alloc(NodeInit { id: 0, next: None })?;
        for id in 1..n {
            head = m.alloc(NodeInit { id, next: Some(head) })?;
        }
        Ok(Root::new(m, head))
    };
    // A thread of its own attaches; what it fails with is its own to see.
    let attached = std::thread::scope(|s| {
        let attach = || match heap.try_enter(|m| m.alloc(Payload(1u8)).map(|_| ())) {
            Ok(done) => done.map_err(Failed::from),
            Err(EnterError::TooManyMutators { .. }) => Err(Failed::Enter),
            Err(e) => panic!("{e}"),
        };
        s.spawn(attach).join().expect("no panic")
    });
    attached?;
    let done = heap.try_enter(|m| -> Result<(), AllocError> {
        let root = list(m, 20)?;
        // Deep enough for index leaves, and leaves of values with a tail in the spine.
        let table = m.alloc_slots::<Node>(70_000).map(|a| Root::new(m, a))?;
        let values: Root<GcArray<u64>> = m.alloc_array(1_300, |i| i as u64).map(|a| Root::new(m, a))?;
        // More handles than a segment of their tables has.
        let text = m.alloc(Payload(String::from("text")))?;
        let globals: Vec<_> = (0..100).map(|_| Global::new(m, text)).collect();
        let weaks: Vec<_> = (0..100).map(|_| Weak::new(m, text)).collect();
        heap.at_pause(m, |h| h.steps(2));
        // The barrier logs what is removed and what is written.
        for i in 0..20 {
            let head = root.get(m);
            table.get(m).store(m, i * 3_000, Some(head));
            let second = head.next.load(m);
            head.next.store(m, None);
            let new = m.alloc(NodeInit { id: 100 + i as u64, next: second })?;
            head.next.store(m, Some(new));
        }
        heap.at_safepoint(m, |h| h.run_until(Phase::Idle));
        assert_eq!(root.get(m).next.load(m).map(|n| n.id), Some(119));
        assert_eq!(table.get(m).load(m, 57_000).map(|n| n.id), Some(19));
        assert_eq!(values.get(m).get(1_299), Some(&1_299));
        assert!(globals.iter().all(|g| g.get(m).0 == "text"));
        assert!(weaks.iter().all(|w| w.upgrade(m).is_some()));
        Ok(())
    });
    match done {
        Ok(done) => done.map_err(Failed::from),
        Err(EnterError::TooManyMutators { .. }) => Err(Failed::Enter),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn an_allocation_that_fails_at_any_call_is_an_error_or_nothing_at_all() {
    let (mut alloc, mut enter, mut none) = (0, 0, 0);
    let mut n = 1;
    loop {
        let heap = TestHeap::new(Config::default().with("heap", "4M").unwrap()).unwrap();
        heap.fail_call(n);
        let outcome = program(&heap);
        let left = heap.calls_left();
        heap.fail_call(0);
        match outcome {
            Err(Failed::Alloc) => alloc += 1,
            Err(Failed::Enter) => enter += 1,
            // A chunk of a log: the grey bits take its place.
            Ok(()) if left == 0 => none += 1,
            Ok(()) => break,
        }
        // What is left is garbage, and the heap is as good as new.
        heap.run_until(Phase::Idle);
        heap.cycle();
        heap.reap();
        heap.cycle();
        assert_eq!(heap.violations(), [], "call {n}");
        assert_eq!(heap.used_bytes(), 0, "call {n}");
        program(&heap).unwrap_or_else(|e| panic!("again after call {n}: {e:?}"));
        assert_eq!(heap.violations(), [], "after call {n}");
        n += 1;
    }
    println!("{n} calls: {alloc} errors of allocations, {enter} of attachments, {none} without");
    assert_eq!(enter, 2, "two threads attach");
    // 20 nodes and 20 later, two arrays of at least 140 leaves, a text.
    assert!(alloc > 180, "{alloc} errors");
    assert!(none > 0, "no chunk of a log was refused");
}

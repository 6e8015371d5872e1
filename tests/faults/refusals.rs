//! Threads, mappings, priorities and locks that the system refuses while a heap is built.

use crate::child;
use metronome_gc::testing::{refuse_locking, refuse_mapping, refuse_thread};
use metronome_gc::{BuildError, Heap, HeapBuilder, Payload};

fn builder() -> HeapBuilder {
    // All threads there are: with a log and something for the memory thread to do.
    Heap::builder().heap_bytes(64 << 20).set("verbose-gc", "/dev/null").set("initial-heap", "8M")
}

fn works(heap: &Heap) {
    heap.enter(|m| {
        assert_eq!(m.alloc(Payload(7u64)).unwrap().0, 7);
        m.collect(metronome_gc::Collect::Cycle).unwrap();
    });
}

#[test]
fn each_thread_in_turn_is_refused_with_its_name_and_nothing_is_left() {
    if child::part().is_none() {
        child::run("refusals::each_thread_in_turn_is_refused_with_its_name_and_nothing_is_left", "all", &[]);
        return;
    }
    // One helper, whatever the machine.
    let two = || builder().set("gc-threads", "2");
    let mut names = Vec::new();
    for n in 1.. {
        refuse_thread(n);
        match two().build() {
            Ok(heap) => {
                assert!(refuse_thread(0) > 0, "a refusal was passed over");
                works(&heap);
                break;
            }
            Err(e) => {
                assert!(matches!(e, BuildError::Thread { .. }), "{e}");
                assert!(e.to_string().contains("ulimit -u"), "{e}");
                let BuildError::Thread { name, .. } = e else { unreachable!() };
                names.push(name);
            }
        }
        child::leaves_nothing(names[names.len() - 1], || {
            refuse_thread(n);
            drop(two().build().expect_err("refused"));
        });
    }
    assert_eq!(names, ["disk", "collector", "marking", "reaper", "finalizer", "memory", "writer", "alarm"]);
}

#[test]
fn each_mapping_in_turn_is_refused_and_nothing_is_left() {
    if child::part().is_none() {
        child::run("refusals::each_mapping_in_turn_is_refused_and_nothing_is_left", "all", &[]);
        return;
    }
    let mut errors = Vec::new();
    for n in 1.. {
        refuse_mapping(n);
        match builder().build() {
            Ok(heap) => {
                assert!(refuse_mapping(0) > 0, "a refusal was passed over");
                works(&heap);
                break;
            }
            Err(e) => errors.push(e),
        }
        child::leaves_nothing(&format!("mapping {n}"), || {
            refuse_mapping(n);
            drop(builder().build().expect_err("refused"));
        });
    }
    // The regions, their table, immortal memory.
    assert!(
        matches!(errors[..], [BuildError::Memory(_), BuildError::Memory(_), BuildError::Immortal { .. }]),
        "{errors:?}"
    );
}

#[test]
fn each_lock_in_turn_is_refused_said_and_the_heap_works() {
    let build = || Heap::builder().heap_bytes(4 << 20).set("lock-memory", "true").build().unwrap();
    for n in 1.. {
        refuse_locking(n);
        let heap = build();
        let passed = refuse_locking(0) > 0;
        works(&heap);
        if passed {
            assert!(n > 2, "the regions and immortal memory are locked");
            break;
        }
        assert!(heap.refusals().iter().any(|r| r.contains("RLIMIT_MEMLOCK")), "{:?}", heap.refusals());
    }
}

/// What the hooks say, from the system: no rights to priorities and locks.
#[test]
fn without_rights_a_heap_says_what_was_refused_and_works() {
    if child::part().is_none() {
        let limits = [(libc::RLIMIT_RTPRIO, 0), (libc::RLIMIT_MEMLOCK, 0)];
        let name = "refusals::without_rights_a_heap_says_what_was_refused_and_works";
        print!("{}", child::run(name, "all", &limits));
        return;
    }
    let heap = Heap::builder().heap_bytes(4 << 20).set("lock-memory", "true").build().unwrap();
    let said = heap.refusals().join("\n");
    works(&heap);
    for what in
        ["collector: SCHED_FIFO priority 10 not permitted", "alarm: SCHED_FIFO priority 11 not permitted"]
    {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(said.matches("raise RLIMIT_MEMLOCK)").count(), 2, "{said}");
}

/// The same for threads: with room for ever more of them, the build is refused until it is not.
#[test]
fn a_limit_on_threads_is_an_error_until_there_is_room() {
    let name = "refusals::a_limit_on_threads_is_an_error_until_there_is_room";
    let Some(_) = child::part() else {
        let outcomes: Vec<String> = (1..=20)
            .map(|n| child::run(name, "all", &[(libc::RLIMIT_NPROC, n)]))
            .take_while(|text| !text.contains("outcome: built"))
            .collect();
        if outcomes.is_empty() || outcomes.iter().any(String::is_empty) {
            println!("skipped: the limit on threads does not bind here");
            return;
        }
        let refused =
            |name: &str| outcomes.iter().any(|t| t.contains(&format!("cannot start the {name} thread")));
        // How many threads the user has otherwise is not this test's; the later ones come all the same.
        assert!(refused("writer") && refused("alarm"), "{outcomes:?}");
        return;
    };
    let before = child::census();
    match builder().build() {
        Ok(heap) => {
            works(&heap);
            println!("outcome: built");
        }
        Err(e) => {
            assert!(matches!(e, BuildError::Thread { .. }), "{e}");
            println!("outcome: {e}");
            let mut after = child::census();
            for _ in 0..1000 {
                if after.threads == before.threads {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
                after = child::census();
            }
            assert_eq!((after.threads, after.files), (before.threads, before.files));
        }
    }
}

/// And for address space.
#[test]
fn a_limit_on_address_space_is_an_error_and_nothing_is_left() {
    let name = "refusals::a_limit_on_address_space_is_an_error_and_nothing_is_left";
    let Some(_) = child::part() else {
        child::run(name, "all", &[(libc::RLIMIT_AS, 2 << 30)]);
        return;
    };
    let build = || Heap::builder().heap_bytes(8 << 30).build().expect_err("more than the limit");
    let e = build();
    assert!(matches!(e, BuildError::Memory(_)) && e.to_string().contains("ulimit -v"), "{e}");
    child::leaves_nothing("address space", || drop(build()));
    works(&builder().build().unwrap());
}

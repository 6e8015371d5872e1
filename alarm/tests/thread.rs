//! The tick thread on the real clock. Assertions are about counts, order and states, never about how long something
//! took: the machines that run this may stop for any time at any point.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use metronome_alarm::{Alarm, AlarmConfig, Clock, MAX_PERIOD_NS, MIN_PERIOD_NS, Tick, affinity, priority};

const PERIOD: u64 = 500_000;

fn spin_until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[test]
fn ticks_are_on_one_grid_in_order_and_none_is_early() {
    let (send, receive) = mpsc::sync_channel(4096);
    let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), move |tick| _ = send.try_send(tick)).unwrap();
    let ticks: Vec<Tick> = receive.iter().take(50).collect();
    let summary = alarm.stop();
    for (i, tick) in ticks.iter().enumerate() {
        assert_eq!(tick.sequence, i as u64);
        assert!(tick.now_ns >= tick.deadline_ns);
    }
    for pair in ticks.windows(2) {
        // The deadlines account for every grid point: what a tick missed, the next deadline skips.
        assert_eq!(pair[1].deadline_ns - pair[0].deadline_ns, PERIOD * (1 + pair[0].missed));
        assert!(pair[1].deadline_ns > pair[0].now_ns);
    }
    assert!(summary.ticks >= 50);
    assert_eq!(summary.ticks, summary.lateness.count);
    assert!(summary.lateness.max >= ticks.iter().map(Tick::lateness_ns).max().unwrap());
    assert!(summary.lateness.missed >= ticks.iter().map(|tick| tick.missed).sum::<u64>());
}

#[test]
fn work_longer_than_the_period_costs_ticks_but_does_not_pile_them_up() {
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&ticks);
    let clock = Clock::monotonic();
    let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), move |tick| {
        let busy_until = tick.now_ns + 3 * PERIOD;
        while clock.now() < busy_until {
            std::hint::spin_loop();
        }
        theirs.lock().unwrap().push(tick);
    })
    .unwrap();
    spin_until(|| alarm.control().ticks() >= 5);
    let summary = alarm.stop();
    let ticks = ticks.lock().unwrap();
    for pair in ticks.windows(2) {
        // The work of the first took three periods, so the second stands for at least two points besides its own.
        assert!(pair[1].missed >= 1, "{pair:?}");
        assert!(pair[1].now_ns >= pair[0].now_ns + 3 * PERIOD);
    }
    let span = ticks[ticks.len() - 1].now_ns - ticks[0].deadline_ns;
    assert!(ticks.len() as u64 <= span / (3 * PERIOD) + 1);
    assert_eq!(summary.ticks, ticks.len() as u64);
}

#[test]
fn no_tick_after_stop_nor_after_drop() {
    for stop in [true, false] {
        let count = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&count);
        let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), move |_| {
            _ = theirs.fetch_add(1, Ordering::SeqCst)
        })
        .unwrap();
        spin_until(|| count.load(Ordering::SeqCst) >= 3);
        if stop {
            assert_eq!(alarm.stop().ticks, count.load(Ordering::SeqCst))
        } else {
            drop(alarm)
        }
        // The closure is gone with the thread: nothing can raise the count any more.
        assert_eq!(Arc::strong_count(&count), 1);
    }
}

#[test]
fn a_paused_alarm_is_silent_until_resumed() {
    let config = AlarmConfig { paused: true, ..AlarmConfig::with_period(PERIOD) };
    let alarm = Alarm::spawn(config, |_| {}).unwrap();
    let control = alarm.control();
    assert!(control.is_paused());
    assert!(!control.pause(), "is paused already");
    // Longer than the period: a thread that ignored the pause would have ticked.
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(control.ticks(), 0);
    assert!(control.resume());
    assert!(!control.resume(), "runs already");
    spin_until(|| control.ticks() >= 3);

    for _ in 0..20 {
        assert!(control.pause());
        // One tick may have been under way; from the next look on the count stands still.
        spin_until(|| {
            let before = control.ticks();
            std::thread::sleep(std::time::Duration::from_millis(2));
            control.ticks() == before
        });
        let silent = control.ticks();
        assert!(control.resume());
        spin_until(|| control.ticks() > silent);
    }
    let summary = alarm.stop();
    assert_eq!(summary.lateness.count, summary.ticks);
    assert!(!control.pause() && !control.resume(), "a stopped alarm stays stopped");
}

#[test]
fn racing_controllers_lose_no_wake_up() {
    let alarm = Alarm::spawn(AlarmConfig::with_period(MIN_PERIOD_NS), |_| {}).unwrap();
    let control = alarm.control();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let control = control.clone();
            scope.spawn(move || {
                for _ in 0..5_000 {
                    control.pause();
                    control.resume();
                }
            });
        }
    });
    // Whoever paused has resumed: the ticks must go on.
    assert!(!control.is_paused());
    let before = control.ticks();
    spin_until(|| control.ticks() > before);
    drop(alarm);
}

#[test]
fn a_paused_alarm_with_a_long_period_stops() {
    let config = AlarmConfig { paused: true, ..AlarmConfig::with_period(MAX_PERIOD_NS) };
    let alarm = Alarm::spawn(config, |_| {}).unwrap();
    assert_eq!(alarm.stop().ticks, 0);
    // An hour's sleep is cut into pieces, or this test would take an hour: the end of the first piece is an early wake-up,
    // after which the thread is asleep again or about to be.
    let alarm = Alarm::spawn(AlarmConfig::with_period(MAX_PERIOD_NS), |_| {}).unwrap();
    spin_until(|| alarm.control().summary().early >= 1);
    assert_eq!(alarm.stop().ticks, 0);
}

#[test]
fn a_panicking_tick_does_not_end_the_thread() {
    let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), |tick| {
        if tick.sequence.is_multiple_of(2) {
            // Without the panic hook's message.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    })
    .unwrap();
    spin_until(|| alarm.control().panics() >= 3);
    let summary = alarm.stop();
    assert_eq!(summary.panics, summary.ticks.div_ceil(2));
}

#[test]
fn an_alarm_dropped_by_its_own_closure_does_not_wait_for_itself() {
    let home: Arc<Mutex<Option<Alarm>>> = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&home);
    let (send, receive) = mpsc::channel();
    let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), move |_| {
        if let Some(own) = theirs.lock().unwrap().take() {
            drop(own);
            send.send(()).unwrap();
        }
    })
    .unwrap();
    *home.lock().unwrap() = Some(alarm);
    receive.recv().unwrap();
    // The thread ends and drops the closure, hence the sender.
    assert!(receive.recv().is_err());
}

#[test]
fn a_panic_in_the_closures_destructor_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    let bomb = Bomb;
    let alarm = Alarm::spawn(AlarmConfig::with_period(PERIOD), move |_| {
        let _keep = &bomb;
    })
    .unwrap();
    assert_eq!(alarm.stop().panics, 0);
}

#[test]
fn the_report_says_what_the_thread_really_has() {
    let cpus = affinity::allowed();
    let (send, receive) = mpsc::channel();
    let config = AlarmConfig {
        priority: Some(11),
        cpu: Some(cpus[0]),
        name: "alarm-under-test".into(),
        ..AlarmConfig::with_period(PERIOD)
    };
    let alarm = Alarm::spawn(config, move |_| {
        let name = std::thread::current().name().map(str::to_owned);
        let _ = send.send((priority::current_fifo(), affinity::allowed(), name));
    })
    .unwrap();
    let (fifo, allowed, name) = receive.recv().unwrap();
    let report = alarm.report();
    match report.priority.as_ref().expect("was asked for") {
        Ok(granted) => assert_eq!(fifo, Some(*granted)),
        Err(refused) => assert_eq!(fifo, None, "{refused}"),
    }
    match report.cpu.as_ref().expect("was asked for") {
        Ok(cpu) => assert_eq!(allowed, [*cpu]),
        Err(refused) => assert_eq!(allowed, cpus, "{refused}"),
    }
    assert_eq!(name.as_deref(), Some("alarm-under-test"));
    assert_eq!(report.is_complete(), report.refusals().count() == 0);
}

#[test]
fn refusals_are_values_and_the_alarm_runs_without() {
    let config =
        AlarmConfig { priority: Some(100), cpu: Some(usize::MAX), ..AlarmConfig::with_period(PERIOD) };
    let alarm = Alarm::spawn(config, |_| {}).unwrap();
    assert_eq!(alarm.report().priority, Some(Err(priority::PriorityRefused::OutOfRange { requested: 100 })));
    assert!(matches!(
        alarm.report().cpu,
        Some(Err(affinity::AffinityRefused::NoSuchCpu { cpu: usize::MAX, .. }))
    ));
    let lines: Vec<String> = alarm.report().refusals().map(|refusal| refusal.to_string()).collect();
    assert!(lines.len() >= 2 && lines[0].contains("priority 100"), "{lines:?}");
    assert!(!alarm.report().is_complete());
    spin_until(|| alarm.control().ticks() >= 2);

    let plain = Alarm::spawn(AlarmConfig::with_period(PERIOD), |_| {}).unwrap();
    assert_eq!((&plain.report().priority, &plain.report().cpu), (&None, &None));
}

#[test]
fn unusable_configurations_are_errors() {
    for period in [0, MIN_PERIOD_NS - 1, MAX_PERIOD_NS + 1, u64::MAX] {
        let error = Alarm::spawn(AlarmConfig::with_period(period), |_| {}).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&period.to_string()));
    }
    let config = AlarmConfig { name: "a\0b".into(), ..AlarmConfig::with_period(PERIOD) };
    assert_eq!(Alarm::spawn(config, |_| {}).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

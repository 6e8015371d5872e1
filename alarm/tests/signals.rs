//! Signals interrupt the alarm's sleep (`EINTR`); they must neither make a tick nor lose one.

use std::sync::mpsc;

use metronome_alarm::{Alarm, AlarmConfig, Tick};
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

extern "C" fn nothing(_: libc::c_int) {}

#[test]
fn an_interrupted_sleep_is_slept_to_its_end() {
    // Without SA_RESTART, so that the sleep really ends early.
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing, so it is async-signal-safe; nothing else here uses this signal.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();

    let period = 20_000_000;
    let (send, receive) = mpsc::channel::<(Pthread, Tick)>();
    let alarm =
        Alarm::spawn(AlarmConfig::with_period(period), move |tick| _ = send.send((pthread_self(), tick)))
            .unwrap();
    let control = alarm.control();
    let (thread, mut before) = receive.recv().unwrap();
    while control.summary().early < 10 {
        // The thread is alive: `alarm` has not been stopped.
        pthread_kill(thread, Signal::SIGUSR1).unwrap();
        std::thread::yield_now();
    }
    for _ in 0..3 {
        let (_, tick) = receive.recv().unwrap();
        assert!(tick.now_ns >= tick.deadline_ns);
        assert_eq!(tick.sequence, before.sequence + 1);
        assert_eq!(tick.deadline_ns, before.deadline_ns + period * (1 + before.missed));
        before = tick;
    }
    let summary = alarm.stop();
    assert_eq!((summary.lateness.count, summary.panics), (summary.ticks, 0));
}

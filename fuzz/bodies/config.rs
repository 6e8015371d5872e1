//! Any text as a configuration file, as one option and as an environment: no panic, errors that say something, and
//! what was accepted can be written down and read back.

use metronome_gc::config::{Config, ConfigError};

fn told(error: &ConfigError) {
    let text = error.to_string();
    assert!(!text.trim().is_empty());
}

fn accepted(config: &Config) {
    let mut again = Config::DEFAULT;
    for (name, value) in config.pairs() {
        // An option that is not set has no text.
        if Config::DEFAULT.get(name) != value {
            again.set(name, &value).unwrap_or_else(|e| panic!("{name} = {value:?} is not read back: {e}"));
        }
    }
    assert_eq!(config, &again);
    if let Err(e) = config.validate() {
        told(&e);
    }
}

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::from_toml(&text) {
        Ok(config) => accepted(&config),
        Err(e) => told(&e),
    }
    let pairs = || text.lines().filter_map(|l| l.split_once('='));
    for (name, value) in pairs() {
        let mut config = Config::DEFAULT;
        match config.set(name.trim(), value.trim()) {
            Ok(()) => accepted(&config),
            Err(e) => {
                told(&e);
                assert_eq!(config, Config::DEFAULT, "an error changed the configuration");
            }
        }
    }
    let mut config = Config::DEFAULT;
    match config.merge_env(pairs()) {
        Ok(()) => accepted(&config),
        Err(e) => {
            told(&e);
            assert_eq!(config, Config::DEFAULT, "an error changed the configuration");
        }
    }
}

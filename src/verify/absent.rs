//! In place of the verifier where it is not compiled in: a type without values, so that every use of one is gone.

use super::{Edge, Floating, Found, VerifyReport, View};
use crate::collector::Stopped;
use crate::config::Verify;
use crate::shared::Shared;

/// There is none.
#[derive(Debug)]
pub(crate) enum Verifier {}

impl Verifier {
    pub(crate) fn new(_: Verify, _: bool) -> Option<Verifier> {
        None
    }

    pub(crate) fn wants(&mut self, _: Edge, _: u64) -> bool {
        match *self {}
    }

    pub(crate) fn is_active(&self) -> bool {
        match *self {}
    }

    pub(crate) fn at(&mut self, _: Edge, _: &Shared, _: &Stopped<'_>, _: &View) -> Option<Floating> {
        match *self {}
    }

    pub(crate) fn demand(_: &Shared, _: &Stopped<'_>, _: &View) -> Option<(VerifyReport, Found)> {
        None
    }
}

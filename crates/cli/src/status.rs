//! The exit status of a command.

/// Ordered: of two that apply the greater one counts.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Status {
    /// 0: done; the answer, where there is one, is "yes".
    #[default]
    Success,
    /// 1: the answer is "no".
    No,
    /// 2: usage or input error; everything possible was done.
    Fault,
}

/// The status after an interrupt: 128 + SIGINT.
pub const INTERRUPTED: i32 = 130;

/// The status after the reader of our output went away: 128 + SIGPIPE.
pub const BROKEN_PIPE: u8 = 141;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beats_one_beats_zero() {
        assert!(Status::Fault > Status::No && Status::No > Status::Success);
        assert_eq!(Status::Fault as u8, 2);
    }
}

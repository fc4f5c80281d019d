//! Verdicts as words: `grant 1024 300`.

use std::fmt;
use std::str::FromStr;

use nodes::grantor::settings::Instead;
use wire::ggu::Verdict;

/// A verdict that is the same for all flows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Words(pub Instead);

/// The accepted words.
pub(super) const WORDS: &str =
    "\"grant KIB SECONDS\", \"decline SECONDS\", \"forward\" or \"drop\"";

/// The words are not a verdict.
pub(super) struct NoWords;

impl FromStr for Words {
    type Err = NoWords;

    fn from_str(text: &str) -> Result<Self, NoWords> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (forward, decision) = match words[..] {
            ["drop"] => (false, None),
            ["forward"] => (true, None),
            ["decline", seconds] => {
                let expire_s = number(seconds).ok_or(NoWords)?;
                (false, Some(Verdict::Declined { expire_s }))
            }
            ["grant", rate, seconds] => {
                let rate_kib = number(rate).ok_or(NoWords)?;
                let expire_s = number(seconds).ok_or(NoWords)?;
                // The last fifth of its time is left for its renewal.
                let next_renewal_ms = (expire_s - expire_s / 5).saturating_mul(1_000);
                let renewal_step_ms = 3_000;
                (
                    true,
                    Some(Verdict::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms }),
                )
            }
            _ => return Err(NoWords),
        };
        Ok(Words(Instead { forward, decision }))
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.decision {
            Some(Verdict::Granted { rate_kib, expire_s, .. }) => {
                write!(f, "grant {rate_kib} {expire_s}")
            }
            Some(verdict) => write!(f, "decline {}", verdict.expire_s()),
            None if self.0.forward => f.write_str("forward"),
            None => f.write_str("drop"),
        }
    }
}

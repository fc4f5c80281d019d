//! Which instruction set a table uses: chosen once when it is built, by name.

use super::{Card, Options, Refusal};

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Isa {
    /// What every processor of the target has.
    Portable,
    /// AVX2, BMI2 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VPOPCNTDQ and VBMI2 beside [`Isa::Avx2`].
    #[cfg(avx512)]
    Avx512,
}

/// The option, for the cards of engines.
pub(crate) const OPTION: (&str, &str, &str) = ("isa", "auto", "auto, portable, avx2 or avx512");

impl Isa {
    /// What the option asks for; `auto` is the best that processor and engine have.
    ///
    /// # Errors
    /// When the option names what there is not.
    pub(crate) fn choose(card: &'static Card, options: &Options) -> Result<Isa, Refusal> {
        Isa::choose_from(card, options, |_| true)
    }

    /// The same for an engine whose AVX-512 gathers at each of many steps: `auto` goes no
    /// further than AVX2 where gathers are slow. On Zen 4 one of sixteen lanes fills a fourth
    /// of the window in which the core looks for reads to come (`rutter6`: 0.7 × the rate of
    /// AVX2 in bursts of 64, 0.9 × in bursts of 256).
    ///
    /// # Errors
    /// As [`Isa::choose`].
    pub(crate) fn choose_gathering(card: &'static Card, options: &Options) -> Result<Isa, Refusal> {
        Isa::choose_from(card, options, |isa| !isa.is_avx512() || !gathers_are_slow())
    }

    fn choose_from(
        card: &'static Card,
        options: &Options,
        suits: impl Fn(Isa) -> bool,
    ) -> Result<Isa, Refusal> {
        let known = |name: &String| OPTION.2.split([',', ' ']).any(|word| word == name);
        let wanted = options.get(card, OPTION.0, known)?;
        let fits = |isa: &Isa| wanted == isa.name() || wanted == "auto" && suits(*isa);
        let found = Isa::there().into_iter().rfind(fits);
        found.ok_or_else(|| card.refuse(format!("isa = {wanted} on a processor without")))
    }

    fn is_avx512(self) -> bool {
        self.name() == "avx512"
    }

    /// The one of this name, where the processor has it; the best for `auto`.
    pub(crate) fn named(name: &str) -> Option<Isa> {
        Isa::there().into_iter().rfind(|isa| name == "auto" || name == isa.name())
    }

    /// As in the option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(avx512)]
            Isa::Avx512 => "avx512",
        }
    }

    /// Those that the processor has, the best last.
    fn there() -> Vec<Isa> {
        #[allow(unused_mut)]
        let mut there = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
        {
            there.push(Isa::Avx2);
        }
        #[cfg(avx512)]
        if there.contains(&Isa::Avx2)
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("avx512vbmi2")
        {
            there.push(Isa::Avx512);
        }
        there
    }
}

/// AMD's processors make a gather of microcode, up to Zen 4 at the least. Nobody else has SSE4a.
fn gathers_are_slow() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("sse4a");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    fn used<A: crate::lpm::Engines>(name: &str, isa: &str) -> Option<&'static str> {
        let entry = A::engine(name)?;
        let mut options = Options::default();
        if entry.card.options.contains(&OPTION) {
            options.0.insert("isa".into(), isa.into());
        }
        let rib = [(crate::Prefix::all(), crate::Hop(1))].into_iter().collect();
        let writer = (entry.build)(&rib, &options, &crate::sync::Domain::new()).ok()?;
        Some(writer.table().isa())
    }

    /// What a table says that it uses is what it was asked for.
    #[test]
    fn tables_report_their_instruction_set() {
        fn portable<A: crate::lpm::Engines>() {
            for entry in A::engines() {
                let found = used::<A>(entry.card.name, "portable");
                assert!(matches!(found, Some("portable") | None), "{} {found:?}", entry.card.name);
            }
        }
        portable::<u32>();
        portable::<u128>();
        for name in ["avx2", "avx512"].into_iter().filter(|name| Isa::named(name).is_some()) {
            for engine in ["dxr", "rutter4", "bloomfwd"] {
                assert_eq!(used::<u32>(engine, name), Some(name), "{engine}");
            }
            assert_eq!(used::<u128>("rutter6", name), Some(name));
            assert_eq!(used::<u32>("poptrie", name), Some("avx2"));
            assert_eq!(used::<u32>("sail-l", name), Some("portable"));
        }
    }

    #[test]
    fn gathers_are_left_where_they_are_slow() {
        let isa = used::<u128>("rutter6", "auto");
        let best = Isa::named("auto").map(Isa::name);
        let avx512 = best == Some("avx512");
        match avx512 && gathers_are_slow() {
            true => assert_eq!(isa, Some("avx2")),
            false => assert_eq!(isa, best),
        }
        // One step more or less is no reason.
        assert_eq!(used::<u32>("rutter4", "auto"), best);
    }

    /// Each suite runs with what there is. What there is not is said here.
    #[test]
    fn this_processor_has_what_engines_can_use() {
        for name in ["avx2", "avx512"] {
            if Isa::named(name).is_none() {
                testing::skip(format_args!("no {name}"));
            }
        }
    }
}

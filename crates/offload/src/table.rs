//! A table from which cores and devices answer, and its changes.

use std::sync::{Arc, OnceLock};

use lookup::lpm::{
    Applied, Engines, Entry, Export, Exported, Exports, Lpm, Options, Refusal, Words, Writer,
};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Rib};

use crate::fault::Fault;
use crate::image::{Image, Patch};

/// A table of one engine: the engine itself for the cores, an image for devices.
///
/// It changes in place ([`Table::apply`]), so a reader that must not see half of a change must not
/// look up meanwhile.
pub struct Table<A: Addr> {
    entry: &'static Entry<A>,
    options: Options,
    domain: Arc<Domain>,
    writer: Box<dyn Writer<A>>,
    lpm: Arc<dyn Lpm<A>>,
    export: Option<Arc<dyn Export>>,
    /// Made when the first device asks for it.
    image: OnceLock<Option<Image>>,
}

impl<A: Engines + Exports> Table<A> {
    /// Builds the engine of `entry`.
    ///
    /// # Errors
    /// When the engine refuses the routes.
    pub fn build(
        entry: &'static Entry<A>,
        options: &Options,
        rib: &Rib<A>,
    ) -> Result<Self, Refusal> {
        let domain = Domain::new();
        let (writer, export) = build(entry, options, rib, &domain)?;
        let (lpm, options) = (writer.table(), options.clone());
        Ok(Table { entry, options, domain, writer, lpm, export, image: OnceLock::new() })
    }

    /// Updates the table to `rib`, which already holds `changes`. Returns the changes to send to devices.
    ///
    /// # Errors
    /// When the engine refuses; the table is then unchanged.
    pub fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Patch, Refusal> {
        if self.writer.apply(rib, changes)? == Applied::Rebuild {
            (self.writer, self.export) = build(self.entry, &self.options, rib, &self.domain)?;
            self.lpm = self.writer.table();
            self.image = OnceLock::new();
            return Ok(Patch::Whole);
        }
        let (Some(Some(image)), Some(export)) = (self.image.get_mut(), &self.export) else {
            return Ok(Patch::Whole); // no device holds it
        };
        let words = words(&**export);
        Ok(image.update(&words).unwrap_or_else(|| {
            self.image = OnceLock::from(Image::new(&words));
            Patch::Whole
        }))
    }
}

impl<A: Addr> Table<A> {
    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        self.entry.card.name
    }

    /// The table that the cores read.
    pub fn lpm(&self) -> &Arc<dyn Lpm<A>> {
        &self.lpm
    }

    /// The domain in which reading threads register.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The image for devices.
    ///
    /// # Errors
    /// When the engine has no kernel, or the table is too large for any device.
    pub fn image(&self) -> Result<&Image, Fault> {
        let engine = self.engine();
        let export = self.export.as_ref().ok_or(Fault::NoKernel { engine })?;
        let image = self.image.get_or_init(|| Image::new(&words(&**export)));
        image.as_ref().ok_or(Fault::TooLarge { engine })
    }
}

/// The engine, and the function that copies it, if it has a kernel.
type Built<A> = (Box<dyn Writer<A>>, Option<Arc<dyn Export>>);

fn build<A: Exports>(
    entry: &Entry<A>,
    options: &Options,
    rib: &Rib<A>,
    domain: &Arc<Domain>,
) -> Result<Built<A>, Refusal> {
    match A::exported().iter().find(|(name, _)| *name == entry.card.name) {
        Some((_, build)) => {
            let Exported { writer, export } = build(rib, options, domain)?;
            Ok((writer, Some(export)))
        }
        None => Ok(((entry.build)(rib, options, domain)?, None)),
    }
}

fn words(export: &dyn Export) -> Words {
    let mut words = Words::default();
    export.copy(&mut words);
    words
}

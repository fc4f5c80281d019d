//! A Lua state with its libraries, and a policy loaded into it.

use std::collections::BTreeMap;

use lookup::lpm::Options as EngineOptions;
use mlua::{Function, LightUserData, Lua, LuaOptions, StdLib, Table};

use super::call::Caller;
use super::error::Error;
use super::native::{self, Bytes, Library};
use super::policy::{Callees, Functions, LOOKS, Policy};
use super::slots::{BATCH, Mark, Slots};
use super::stop::{self, Stopper};

/// The resources of a policy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of each packet that it sees.
    pub snap: usize,
    /// The most bytes of its Lua state; 0: no limit.
    pub memory: usize,
    /// The most bytes of its `lpmlib` tables, in addition; 0: no limit.
    pub tables: usize,
    /// The engine of `lpmlib`'s IPv4 tables and its options; `""`: the default engine.
    pub engine4: (String, EngineOptions),
    /// The same for IPv6.
    pub engine6: (String, EngineOptions),
    /// The raw bytes of files, by the name that the policy uses. A policy's process opens none.
    pub files: BTreeMap<String, Bytes>,
    /// The result of `gt_lcore_id`: one for each process that runs the policy.
    pub worker: u32,
    /// Where it notes at which question it is.
    pub mark: Option<Mark>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            snap: 256,
            memory: 256 << 20,
            tables: 1 << 30,
            engine4: Default::default(),
            engine6: Default::default(),
            files: BTreeMap::new(),
            worker: 0,
            mark: None,
        }
    }
}

/// A Lua state with its libraries, in which no policy runs yet.
pub struct Prepared(Policy);

impl Prepared {
    /// Makes a state.
    ///
    /// # Errors
    /// When there is no memory for it, or no such engine.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let engines = [&options.engine4, &options.engine6];
        let library = Library::new(engines, options.tables, options.files.clone());
        let mut library = library.map_err(|what| Error::Engine { what })?;
        let slots = Slots::new(options.snap, options.mark);
        // Caught panics would be ours alone, and cost `pcall` its compiled code; `native`
        // has none that could pass.
        let lua_options = LuaOptions::new().catch_rust_panics(false);
        // SAFETY: policies need `ffi`, so the whole library; see the module's own words.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, lua_options) };
        let made = libraries(&lua, options, &slots, &raw mut *library)
            .and_then(|driver| {
                let caller = Caller::new(lua.clone(), &driver.get("handler")?)?;
                let callee = |name| caller.callee(&driver.get::<Function>(name)?);
                let call = Callees {
                    one: callee("one")?,
                    each: callee("each")?,
                    batch: callee("batch")?,
                    punish: callee("punish")?,
                    compile: callee("compile")?,
                };
                let functions = Functions {
                    defines: driver.get("defines")?,
                    exec: driver.get("exec")?,
                    load: driver.get("load")?,
                };
                lua.set_memory_limit(options.memory)?;
                Ok((caller, call, functions))
            })
            .map_err(|_| Error::NoState);
        drop(lua);
        let (caller, call, functions) = made?;
        let name = String::new();
        let defines = (false, false);
        let failed = Vec::with_capacity(BATCH);
        let looks = LOOKS;
        Ok(Prepared(Policy {
            name,
            caller,
            call,
            functions,
            slots,
            library,
            defines,
            failed,
            looks,
        }))
    }

    /// Stops the policy while it loads, and later.
    pub fn stopper(&self) -> Stopper {
        self.0.stopper()
    }

    /// A function that finds the policy's line where it has no error that names it: from 1, or 0.
    /// In compiled code the line is one that LuaJIT noted before, or there is none. Of several
    /// policies, the function is about the last one that this was called for.
    ///
    /// The function is to be called in the thread of this state, which may be anywhere: in a signal
    /// handler, too.
    pub fn line_now(&self) -> unsafe fn() -> u32 {
        self.0.caller.show_line();
        stop::line_now
    }

    /// Runs a policy's source, which errors call `name`.
    ///
    /// # Errors
    /// When it is not Lua, throws, is stopped, or lacks both functions.
    pub fn load(self, name: &str, source: &str) -> Result<Policy, Error> {
        let mut policy = self.0;
        name.clone_into(&mut policy.name);
        let args = (source, format!("@{name}"));
        let (ran, message) = policy.run(|own| own.functions.load.call(args))?;
        match ran {
            Some(true) => {}
            Some(false) => return Err(policy.thrown(message)),
            None => return Err(Error::Syntax { message }),
        }
        policy.define()?;
        match policy.defines {
            (false, false) => Err(Error::NoPolicy { name: policy.name }),
            _ => Ok(policy),
        }
    }
}

#[cfg(test)]
impl Policy {
    /// Loads a policy from its source; errors call it `name`.
    pub fn load(name: &str, source: &str, options: &Options) -> Result<Self, Error> {
        Prepared::new(options)?.load(name, source)
    }
}

/// Loads the libraries; returns the driver's functions.
fn libraries(
    lua: &Lua,
    options: &Options,
    slots: &Slots,
    library: *mut Library,
) -> mlua::Result<Table> {
    let pointer = |at: *mut u8| LightUserData(at.cast());
    let [headers, policies, forward, at] = slots.places().map(pointer);
    let place = lua.create_table()?;
    place.set("headers", headers)?;
    place.set("policies", policies)?;
    place.set("forward", forward)?;
    place.set("at", at)?;
    place.set("batch", BATCH)?;
    let natives = lua.create_table()?;
    for (family, name, function) in native::functions() {
        natives.set(format!("{family}{name}"), LightUserData(function.cast_mut()))?;
    }
    let script =
        |name: &str, text: &str| lua.load(text).set_name(format!("={name}")).into_function();
    script("cdef", include_str!("script/cdef.lua"))?.call::<()>(())?;
    let policylib: Table = script("policylib", include_str!("script/policylib.lua"))?
        .call((&place, options.worker))?;
    let loaded: Table = lua.globals().get::<Table>("package")?.get("loaded")?;
    loaded.set("gatekeeper/policylib", &policylib)?;
    // What a deployed Grantor declares there is in `cdef`.
    loaded.set("gatekeeper/stdcdefs", lua.create_table()?)?;
    let lpmlib: Table = script("lpmlib", include_str!("script/lpmlib.lua"))?
        .call((&natives, LightUserData(library.cast())))?;
    loaded.set("gatekeeper/lpmlib", &lpmlib)?;
    loaded.set("lpmlib", &lpmlib)?;
    lua.globals().set("lpmlib", lpmlib)?;
    script("files", include_str!("script/files.lua"))?
        .call::<()>((natives, LightUserData(library.cast())))?;
    script("driver", include_str!("script/driver.lua"))?.call((place, policylib))
}

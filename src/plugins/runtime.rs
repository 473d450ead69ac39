//! The engine, its clock, and one call in a store of its own.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Engine, EngineWeak, ResourceLimiter, Store, UpdateDeadline};

use super::bindings::types;
use super::bindings::{deploy, source};
use super::error::{Exhaustion, PluginError, from_runtime};
use super::host::CallState;

/// One tick of the processor budget.
const TICK: Duration = Duration::from_millis(10);
/// After being asked to stop, a guest has this long to answer `cancelled` by itself.
const GRACE: Duration = Duration::from_secs(3);
/// Bytes that one call from the guest may make the host copy.
const HOSTCALL_FUEL: usize = 16 << 20;
/// Handles, in the runtime's table and in ours.
const MOST_HANDLES: usize = 1000;
const MOST_INSTANCES: usize = 64;
const MOST_TABLES: usize = 64;
const MOST_MEMORIES: usize = 8;
const MOST_TABLE_ELEMENTS: usize = 1 << 20;

/// The process's one engine.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<CallState>,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// Starts the engine and its clock.
    ///
    /// # Errors
    /// When the machine is none that code can be compiled for.
    pub(crate) fn start() -> wasmtime::Result<Runtime> {
        let mut config = Config::new();
        config.epoch_interruption(true).concurrency_support(false).max_wasm_stack(512 << 10).async_stack_size(2 << 20);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        deploy::DeployCommandPlugin::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
        let ticker = Arc::new(Ticker::default());
        ticker.clone().start(engine.weak())?;
        Ok(Runtime { engine, linker, ticker })
    }

    /// Runs `work` in a fresh store. However it ends, the store and all that the call held are gone afterwards.
    pub(crate) async fn call<T: Send>(
        &self,
        state: CallState,
        work: impl for<'a> FnOnce(&'a mut Store<CallState>) -> BoxFuture<'a, wasmtime::Result<Result<T, types::Error>>> + Send,
    ) -> Result<Result<T, types::Error>, PluginError> {
        let _running = Running::new(&self.ticker);
        let (cancel, deadline, wall) = (state.call.cancel.clone(), state.deadline, state.call.wall);
        let (plugin, cpu) = (state.plugin.clone(), state.grants.cpu);
        let budget = u64::try_from(cpu.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOSTCALL_FUEL);
        store.set_max_component_handles(MOST_HANDLES);
        store.data_mut().table.set_max_capacity(MOST_HANDLES);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |mut context| {
            let state = context.data_mut();
            state.ticks += 1;
            if state.ticks > budget {
                return Ok(UpdateDeadline::Interrupt);
            }
            // A guest that computes gives way to everything else on this thread.
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        let finished = tokio::select! {
            biased;
            finished = work(&mut store) => Some(finished),
            () = tokio::time::sleep_until(deadline) => None,
            () = async { cancel.cancelled().await; tokio::time::sleep(GRACE).await } => None,
        };
        match finished {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                let limiter = &store.data().limiter;
                Err(from_runtime(&plugin, &error, Exhaustion { memory: limiter.refused, memory_bytes: limiter.limit, cpu }))
            }
            None if cancel.is_cancelled() => Err(PluginError::Cancelled(plugin.to_string())),
            None => Err(PluginError::TimedOut { plugin: plugin.to_string(), wall }),
        }
    }

    /// Checks imports and exports once; instances are cheap then.
    pub(crate) fn link_deploy(
        &self,
        component: &wasmtime::component::Component,
    ) -> wasmtime::Result<deploy::DeployCommandPluginPre<CallState>> {
        deploy::DeployCommandPluginPre::new(self.linker.instantiate_pre(component)?)
    }

    /// The same for source-control plugins.
    pub(crate) fn link_source(
        &self,
        component: &wasmtime::component::Component,
    ) -> wasmtime::Result<source::SourceControlPluginPre<CallState>> {
        source::SourceControlPluginPre::new(self.linker.instantiate_pre(component)?)
    }
}

/// Counts the memory of all memories of a call together: the runtime's own limits are per memory.
pub(crate) struct MemoryLimiter {
    limit: usize,
    used: usize,
    last_growth: usize,
    table_elements: usize,
    refused: bool,
}

impl MemoryLimiter {
    pub(crate) fn new(limit: usize) -> Self {
        MemoryLimiter { limit, used: 0, last_growth: 0, table_elements: 0, refused: false }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        if self.used.saturating_add(growth) > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.used += growth;
        self.last_growth = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used -= std::mem::take(&mut self.last_growth);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.table_elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        Ok(self.table_elements <= MOST_TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        MOST_INSTANCES
    }

    fn tables(&self) -> usize {
        MOST_TABLES
    }

    fn memories(&self) -> usize {
        MOST_MEMORIES
    }
}

/// Makes the engine's epoch pass while calls run, and sleeps while none does.
#[derive(Default)]
struct Ticker {
    running: Mutex<usize>,
    changed: Condvar,
}

impl Ticker {
    /// The thread ends with the engine: it holds it weakly, and looks for it now and then even when idle.
    fn start(self: Arc<Self>, engine: EngineWeak) -> wasmtime::Result<()> {
        let work = move || {
            loop {
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
                drop(engine);
                let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                if *running == 0 {
                    let idle = Duration::from_secs(60);
                    drop(self.changed.wait_timeout(running, idle).unwrap_or_else(PoisonError::into_inner));
                } else {
                    drop(running);
                    std::thread::sleep(TICK);
                }
            }
        };
        std::thread::Builder::new().name("plugin-clock".into()).spawn(work)?;
        Ok(())
    }
}

/// One call that runs.
struct Running<'a>(&'a Ticker);

impl<'a> Running<'a> {
    fn new(ticker: &'a Ticker) -> Self {
        *ticker.running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        ticker.changed.notify_one();
        Running(ticker)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.refused);
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no")).unwrap();
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert!(!limiter.memory_growing(usize::MAX - 1, usize::MAX, None).unwrap());
    }
}

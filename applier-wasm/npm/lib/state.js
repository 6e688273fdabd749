import { Apply } from './apply.js';
import { misuse, wrap } from './errors.js';
import { applyOptions, runApply, runHooks } from './run.js';

/** The module's side of a session, busy with one thing at a time, freed once. */
export class SessionState {
  #raw;
  #busy = false;
  #freed = false;
  #trapped = false;
  step;
  undoStep;
  poisoned = false;

  constructor(raw, step) {
    this.#raw = raw;
    this.step = step;
  }

  /** The module's side, if it is there and has nothing to do. */
  idle() {
    if (this.#freed) throw misuse('the session was freed');
    if (this.#busy) throw misuse('the session is busy: an earlier call has not ended');
    return this.#raw;
  }

  /** A call that ends at once. */
  now(call) {
    const raw = this.idle();
    try {
      return call(raw);
    } catch (thrown) {
      throw wrap(thrown);
    }
  }

  /** A call that takes a while. It says so in `note.writing` when weights may have changed. */
  async during(call) {
    const raw = this.idle();
    const note = { writing: false };
    this.#busy = true;
    try {
      return await call(raw, note);
    } catch (thrown) {
      const error = wrap(thrown);
      // A module that trapped while it wrote cannot say what it left.
      if (note.writing && error.code === 'internal') this.poisoned = this.#trapped = true;
      throw error;
    } finally {
      this.#busy = false;
      this.#look(raw);
      if (this.#freed) raw.free();
    }
  }

  #look(raw) {
    if (this.#trapped) return;
    try {
      ({ step: this.step, undoStep: this.undoStep, poisoned: this.poisoned } = raw);
    } catch {
      // After a trap the module has no answer; nothing was written, so what was known stands.
    }
  }

  free() {
    if (this.#freed) return;
    this.#freed = true;
    if (!this.#busy) this.#raw.free();
  }
}

/** The state of a session, for the classes that extend it. */
export let stateOf;

/** What every session does, whatever holds its weights. */
export class Session {
  #state;

  static {
    stateOf = (session) => session.#state;
  }

  constructor(state) {
    if (!(state instanceof SessionState)) throw misuse('sessions are made by open()');
    this.#state = state;
  }

  /** Starts to bring the bound tensors to a patch's target. */
  apply(input, options) {
    return new Apply((emit, stop) => this.#apply(input, options, emit, stop));
  }

  async #apply(input, options, emit, stop) {
    const checked = applyOptions(options);
    const began = { verify: performance.now() };
    const noted = (event) => {
      if (event.phase in { write: 0, confirm: 0 }) began[event.phase] ??= performance.now();
      emit(event);
    };
    return this.#state.during(async (raw, note) => {
      const applied = await runApply(input, checked, { emit: noted, stop, note }, (source, hooks) => raw.apply(source, hooks));
      const ended = performance.now();
      const { verify, write = ended, confirm = ended } = began;
      return { ...applied, times: { verify: write - verify, write: confirm - write, confirm: ended - confirm } };
    });
  }

  /** Takes the last patch back; gives the step that is held then. */
  async undo({ quiesce, invalidate } = {}) {
    const options = applyOptions({ quiesce, invalidate });
    return this.#state.during((raw, note) => runHooks(options, note, (hooks) => raw.undo(hooks)));
  }

  get step() {
    return this.#state.step;
  }

  get undoStep() {
    return this.#state.undoStep;
  }

  get poisoned() {
    return this.#state.poisoned;
  }

  /** Gives the session's own memory back, never the caller's; one that is busy does so when it is done. */
  free() {
    this.#state.free();
  }
}

export function checkSeed(seed) {
  if (typeof seed !== 'bigint' || BigInt.asUintN(64, seed) !== seed) throw misuse('the seed is no 64-bit bigint');
  return seed;
}

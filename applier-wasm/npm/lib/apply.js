// What `apply` returns: a promise of the result that can also be looped over for events.

/** Awaitable, and async iterable once or more; a reader that is slow gets the latest event of a phase, not all. */
export class Apply {
  #promise;
  #latest = [];
  #ended = false;
  #wake = () => {};
  #changed;
  /** Somebody awaits it, or will be told at the end of a loop. */
  #observers = 0;
  #stop = new AbortController();

  constructor(start) {
    this.#renew();
    this.#promise = start((event) => this.#emit(event), this.#stop.signal);
    const end = () => {
      this.#ended = true;
      this.#wake();
    };
    this.#promise.then(end, end);
    this.#report();
  }

  get [Symbol.toStringTag]() {
    return 'Apply';
  }

  then(fulfilled, rejected) {
    this.#observers += 1;
    return this.#promise.then(fulfilled, rejected);
  }

  catch(rejected) {
    return this.then(undefined, rejected);
  }

  finally(settled) {
    this.#observers += 1;
    return this.#promise.finally(settled);
  }

  /** A failure that nobody looks at is reported as that of any promise is; to have stopped is none where that was wanted. */
  #report() {
    this.#promise.catch((error) => {
      const wanted = () => this.#stop.signal.aborted && error.code === 'aborted';
      setTimeout(() => this.#observers > 0 || wanted() || Promise.reject(error), 0);
    });
  }

  #renew() {
    this.#changed = new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #emit(event) {
    const known = this.#latest.findIndex(({ phase }) => phase === event.phase);
    if (known < 0) this.#latest.push(event);
    else this.#latest[known] = event;
    this.#wake();
    this.#renew();
  }

  /**
   * Events as they come; ends with the apply, or throws what it throws. Whoever leaves the loop early stops the apply, as long as nothing is
   * written; a failure after that is reported as that of any promise.
   */
  async *[Symbol.asyncIterator]() {
    this.#observers += 1;
    let whole = false;
    try {
      yield* this.#events();
      whole = true;
    } finally {
      if (!whole) {
        this.#observers -= 1;
        this.#stop.abort(new Error('the loop over the events was left'));
        this.#report();
      }
    }
    await this.#promise;
  }

  async *#events() {
    const seen = new Map();
    for (;;) {
      const changed = this.#changed;
      for (const event of [...this.#latest]) {
        if (seen.get(event.phase) !== event) {
          seen.set(event.phase, event);
          yield event;
        }
      }
      if (this.#ended && this.#latest.every((event) => seen.get(event.phase) === event)) break;
      // An event between the two would have replaced `changed`, which is then resolved.
      await changed;
    }
  }
}

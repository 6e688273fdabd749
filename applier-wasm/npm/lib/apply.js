// What `apply` returns: a promise of the result that can also be looped over for events.

/** Awaitable, and async iterable once or more; a reader that is slow gets the latest event of a phase, not all. */
export class Apply {
  #promise;
  #latest = [];
  #ended = false;
  #wake = () => {};
  #changed;
  #observed = false;

  constructor(start) {
    this.#renew();
    this.#promise = start((event) => this.#emit(event));
    const end = () => {
      this.#ended = true;
      this.#wake();
    };
    this.#promise.then(end, (error) => {
      end();
      // A failure that nobody looks at is reported as that of any promise is.
      setTimeout(() => this.#observed || Promise.reject(error), 0);
    });
  }

  get [Symbol.toStringTag]() {
    return 'Apply';
  }

  then(fulfilled, rejected) {
    this.#observed = true;
    return this.#promise.then(fulfilled, rejected);
  }

  catch(rejected) {
    return this.then(undefined, rejected);
  }

  finally(settled) {
    this.#observed = true;
    return this.#promise.finally(settled);
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

  /** Events as they come; ends with the apply, or throws what it throws. */
  async *[Symbol.asyncIterator]() {
    this.#observed = true;
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
    await this.#promise;
  }
}

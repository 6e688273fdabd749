// Runs inside workerd, as the one test of its configuration.
import { encodeResult } from './result.mjs';

export default {
  async test(_controller, { job, repository, unsafeEval }) {
    const strays = [];
    addEventListener('unhandledrejection', ({ reason }) => {
      strays.push(reason);
    });
    const { run } = await import(`/${job.module}`);
    const result = await run({
      gpu: undefined,
      runtime: 'workerd',
      arg: job.arg,
      async readFile(path) {
        const response = await repository.fetch(`http://repository/${path}`);
        if (!response.ok) throw new Error(`${path}: HTTP status ${response.status}`);
        return new Uint8Array(await response.arrayBuffer());
      },
      log: (...parts) => console.error(...parts),
      // Its AsyncFunction makes none from text.
      evaluate: (parameters, body) => unsafeEval.newAsyncFunction(body, 'block', ...parameters),
    });
    if (strays.length > 0)
      throw new AggregateError(strays, `unhandled: ${strays.map((reason) => reason?.stack ?? reason).join(', ')}`);
    console.log(encodeResult(result));
  },
};

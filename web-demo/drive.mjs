// Takes the page through its chain in Chromium, as a person would: by its buttons.
import { withBrowser } from '../tests/runtimes/chromium.mjs';

const TIMEOUT_MS = 120_000;
const DESKTOP = { width: 1240, height: 900 };
const PHONE = { width: 390, height: 844 };

/** What the page found: `steps`, the challenge, the undo, a damaged patch. Throws when it cannot be used at all. */
export function drive(url, screenshot) {
  return withBrowser(async ({ browser }) => {
    const page = await browser.newPage({ viewport: DESKTOP, colorScheme: 'light' });
    page.setDefaultTimeout(TIMEOUT_MS);
    const problems = [];
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    await page.goto(url);
    await settled(page);
    const refusal = await tryDamaged(page);
    await press(page, 'start');
    const undone = await tryUndo(page);
    await press(page, 'challenge');
    await page.mouse.move(0, 0);
    if (screenshot) await takeScreenshots(page, screenshot);
    const report = await read(page);
    const widened = report.receiver?.kind === 'gpu' ? await tryWidened(page) : null;
    return { ...report, refusal, undone, widened, problems };
  }).then(judge);
}

/** Waits until the page is doing nothing; a failure that cannot be tried again is the end. */
function settled(page) {
  return page.waitForFunction(() => ['ready', 'finished', 'failed'].includes(document.body.dataset.status));
}

async function press(page, id) {
  const button = page.locator(`#${id}`);
  if (await button.isDisabled()) return;
  await button.click();
  await settled(page);
}

/** The first patch arrives with one bit flipped: it must be refused by its code, with the base still held. */
async function tryDamaged(page) {
  const pattern = '**/chain/*.pulse';
  await page.route(pattern, async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    body[Math.floor(body.length / 2)] ^= 1;
    await route.fulfill({ response, body });
  });
  await press(page, 'step');
  await page.unroute(pattern);
  return page.evaluate(() => {
    const { failure, records } = globalThis.pulseDemo.state();
    return { code: failure?.code ?? null, stepsApplied: records.length };
  });
}

/** Back and forth over the last step; null where the receiver keeps nothing to undo with. */
async function tryUndo(page) {
  if (await page.locator('#undo').isHidden()) return null;
  const count = () => page.evaluate(() => globalThis.pulseDemo.state().records.length);
  const before = await count();
  await press(page, 'undo');
  const back = await count();
  await press(page, 'step');
  return back === before - 1 && (await count()) === before;
}

/** The whole chain once more, on weights held as f32. */
async function tryWidened(page) {
  await page.selectOption('select[name=layout]', 'f32');
  await press(page, 'load');
  await press(page, 'start');
  const undone = await tryUndo(page);
  await press(page, 'challenge');
  const { status, failure, receiver, steps, challenge } = await read(page);
  return { status, failure, layout: receiver?.layout, steps, undone, challenge };
}

function read(page) {
  return page.evaluate(() => {
    const { status, failure, chain, receiver, device, noGpu, records, challenge } = globalThis.pulseDemo.state();
    const { name, baseStep, patches } = chain?.manifest ?? { patches: [] };
    return {
      status,
      failure: failure ?? null,
      model: name,
      baseStep,
      patches: patches.length,
      cells: chain?.cells,
      receiver,
      adapter: device?.name ?? null,
      noGpu: noGpu ?? null,
      challenge: challenge ?? null,
      steps: records.map((record) => ({
        ...record,
        identical: record.fingerprint === record.expected && record.bitsEqual === true,
      })),
    };
  });
}

function judge(report) {
  const { patches, widened, refusal, problems } = report;
  const reached = ({ status, steps, undone, challenge }) =>
    status === 'finished' &&
    steps.length === patches &&
    patches > 0 &&
    steps.every(({ identical }) => identical) &&
    undone !== false &&
    challenge !== null &&
    challenge.answer === challenge.expected;
  const bitIdentical =
    reached(report) &&
    (widened === null || (widened.layout === 'f32' && reached(widened))) &&
    refusal.code === 'damaged' &&
    refusal.stepsApplied === 0 &&
    problems.length === 0;
  // `noGpu`: one was wanted, and there was none.
  return { ...report, bitIdentical, passed: bitIdentical && report.noGpu === null };
}

async function takeScreenshots(page, file) {
  const named = (suffix) => file.replace(/(\.png)?$/, `${suffix}.png`);
  for (const [size, device] of [[DESKTOP, ''], [PHONE, '-phone']]) {
    for (const [colorScheme, scheme] of [['light', ''], ['dark', '-dark']]) {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      // The charts follow the new width in the next frame.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      await page.screenshot({ path: named(device + scheme), fullPage: true });
    }
  }
}

const COLUMNS = [
  ['step', 6, ({ targetStep }) => targetStep],
  ['patch bytes', 12, ({ patchBytes }) => patchBytes],
  ['changed', 9, ({ changes }) => changes],
  ['density %', 10, ({ changes, cells }) => ((100 * changes) / cells).toFixed(3)],
  ['B/change', 9, ({ patchBytes, changes }) => (patchBytes / changes).toFixed(3)],
  ['vs dense', 9, ({ patchBytes, cells }) => `${((2 * cells) / patchBytes).toFixed(0)}x`],
  ['verify ms', 10, ({ times }) => times.verify.toFixed(1)],
  ['write ms', 9, ({ times }) => times.write.toFixed(1)],
  ['confirm ms', 11, ({ times }) => times.confirm?.toFixed(1) ?? '-'],
  ['submits', 8, ({ submits }) => submits ?? '-'],
  ['dispatches', 11, ({ dispatches }) => dispatches ?? '-'],
  ['uploaded', 9, ({ uploadedBytes }) => uploadedBytes ?? '-'],
  ['read back', 10, ({ readBytes }) => readBytes ?? '-'],
  ['scratch', 9, ({ scratchBytes }) => scratchBytes ?? '-'],
  ['fingerprint', 18, ({ fingerprint }) => fingerprint],
  ['bits', 10, ({ identical }) => (identical ? 'identical' : 'DIFFER')],
];

function printSteps(steps) {
  console.log(COLUMNS.map(([title, width]) => title.padStart(width)).join(''));
  for (const step of steps) console.log(COLUMNS.map(([, width, value]) => String(value(step)).padStart(width)).join(''));
}

function printTries({ undone, challenge }) {
  if (undone !== null) console.log(`undo and redo of the last step: ${undone ? 'yes' : 'NO'}`);
  if (!challenge) return;
  const { seed, step, answer, expected } = challenge;
  const verdict = answer === expected ? 'equal' : 'DIFFERENT';
  console.log(`challenge ${seed} on step ${step}: ${answer}, the CPU says ${expected}: ${verdict}`);
}

/** The report for people. */
export function print(report) {
  const { receiver, adapter, noGpu, steps, failure, widened, refusal, problems } = report;
  const places = { gpu: `in GPU buffers (${receiver?.layout}) on ${adapter}`, cpu: `in the page's memory (${noGpu ?? 'as chosen'})` };
  console.log(`\nIn Chromium, ${places[receiver?.kind] ?? 'with nothing loaded'}`);
  printSteps(steps);
  console.log(`a damaged patch: ${refusal.code ?? 'NOT refused'}, ${refusal.stepsApplied} steps applied`);
  printTries(report);
  if (widened) {
    console.log(`\nThe chain once more, in GPU buffers (${widened.layout})`);
    printSteps(widened.steps);
    printTries(widened);
  }
  for (const { code, message } of [failure, widened?.failure].filter(Boolean)) console.log(`stopped: ${code}: ${message}`);
  for (const problem of problems) console.log(`the page reported: ${problem}`);
  if (noGpu) console.log('FAILED: the weights were not in GPU buffers; --cpu says that none are wanted');
  const layouts = widened ? ', packed and as f32' : '';
  console.log(report.bitIdentical ? `all ${steps.length} steps bit-identical${layouts}` : 'NOT bit-identical');
}

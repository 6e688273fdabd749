import { stepAt } from '../chain.js';
import { isIdentical, type State } from '../state.js';
import { byId, element } from './dom.js';
import { milliseconds } from './numbers.js';

type Verdict = 'good' | 'bad' | 'open';

const MARKS: Record<Verdict, string> = { good: '✓', bad: '✗', open: '·' };

/** What the receiver holds now, and how the page knows. */
export function drawChecks(state: State): void {
  byId('checks').replaceChildren(...fingerprint(state), ...bits(state), ...challenge(state), ...undo(state));
}

function check(verdict: Verdict, title: string, ...said: (Node | string)[]): HTMLElement {
  const mark = element('span', { class: 'mark' }, MARKS[verdict]);
  return element('li', { class: verdict }, mark, element('div', {}, element('strong', {}, title), element('p', {}, ...said)));
}

function digits(text: string): HTMLElement {
  return element('code', {}, text);
}

function fingerprint({ records }: State): HTMLElement[] {
  const last = records.at(-1);
  if (!last) return [check('open', 'Fingerprint', 'Taken of the result by every step itself, and compared with the patch’s header.')];
  const equal = last.fingerprint === last.expected;
  return [
    check(
      equal ? 'good' : 'bad',
      equal ? `Fingerprint of step ${last.targetStep} is the header’s` : `Fingerprint of step ${last.targetStep} is wrong`,
      digits(last.fingerprint),
      equal ? ' held and expected' : ' held, ',
      ...(equal ? [] : [digits(last.expected), ' expected']),
    ),
  ];
}

function bits({ records, chain, status }: State): HTMLElement[] {
  const known = records.filter(({ bitsEqual }) => bitsEqual !== undefined);
  if (records.length > 0 && known.length === 0)
    return [check('open', 'Bits', 'The manifest does not say what the targets’ hashes are.')];
  if (records.length === 0)
    return [check('open', 'Bits', 'All weights are read back after every step, and their SHA-256 compared with the trainer’s.')];
  const wrong = records.filter((record) => !isIdentical(record)).length;
  if (wrong > 0) return [check('bad', 'Not bit-identical', `${wrong} of ${records.length} steps differ from the trainer’s.`)];
  const end = status === 'finished' && chain ? `: step ${stepAt(chain, records.length)} is reached` : '';
  const steps = known.length === 1 ? '1 step' : `${known.length} steps`;
  return [
    check(
      'good',
      `Bit-identical${end}`,
      `${steps}: weights read back by this page have the SHA-256 of the trainer’s. No step itself needs that.`,
    ),
  ];
}

function challenge({ challenge }: State): HTMLElement[] {
  if (!challenge)
    return [check('open', 'Challenge', 'A fresh seed gives a fingerprint that nobody can know without holding the weights now.')];
  const { seed, step, answer, answerMs, expected } = challenge;
  return [
    check(
      answer === expected ? 'good' : 'bad',
      `Challenge on step ${step} ${answer === expected ? 'answered' : 'answered wrongly'}`,
      'seed ',
      digits(seed),
      ': ',
      digits(answer),
      ` in ${milliseconds(answerMs)}; the CPU, over the weights read back: `,
      digits(expected),
    ),
  ];
}

function undo({ undone, undoRefused, records, chain }: State): HTMLElement[] {
  if (undoRefused) return [check('open', 'Not undone', 'The receiver no longer knows where the last step wrote. The step is still held.')];
  if (undone === 0 || !chain) return [];
  const times = undone === 1 ? 'once' : `${undone} times`;
  const held = `Held now: step ${stepAt(chain, records.length)}.`;
  return [check('good', `Undone ${times}, in place`, `The weights read back were those of the step before. ${held}`)];
}

import { openReceiver } from './open.js';
import { Runner } from './runner.js';
import type { Settings } from './state.js';
import { byId } from './view/dom.js';
import { makePage } from './view/page.js';
import { drawColumns } from './view/table.js';
import { followTheme } from './view/theme.js';

/** The folder as typed, or as the address says it; relative to the page. */
function folderUrl(text: string): URL {
  return new URL(text.endsWith('/') ? text : `${text}/`, document.baseURI);
}

function readSettings(form: HTMLFormElement): Settings {
  const fields = new FormData(form);
  return {
    folder: folderUrl(String(fields.get('folder'))),
    layout: fields.get('layout') === 'f32' ? 'f32' : 'packed',
    cpuOnly: fields.get('receiver') === 'cpu',
  };
}

/** `?chain=`, `?layout=` and `?receiver=` preset the form. */
function presetForm(form: HTMLFormElement): void {
  const query = new URLSearchParams(location.search);
  for (const [name, fallback] of [['folder', 'chain'], ['layout', 'packed'], ['receiver', 'auto']] as const) {
    const field = form.elements.namedItem(name) as HTMLInputElement | HTMLSelectElement;
    field.value = query.get(name === 'folder' ? 'chain' : name) ?? fallback;
  }
}

function connect(runner: Runner, form: HTMLFormElement): void {
  const reload = () => void runner.load(readSettings(form));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    reload();
  });
  const press = (id: string, action: () => void) => byId(id).addEventListener('click', action);
  press('start', () => (runner.state.status === 'running' ? runner.pause() : void runner.start()));
  press('step', () => void runner.step());
  press('undo', () => void runner.undo());
  press('challenge', () => void runner.challenge());
  press('restart', reload);
}

function main(): void {
  drawColumns();
  followTheme(byId<HTMLButtonElement>('theme'));
  const form = byId<HTMLFormElement>('settings');
  presetForm(form);
  const draw = makePage();
  let drawing = false;
  const runner = new Runner(readSettings(form), openReceiver, (state) => {
    byId('footer').textContent = state.chain?.manifest.notice ?? '';
    // Progress comes more often than frames do.
    if (drawing) return;
    drawing = true;
    queueMicrotask(() => {
      drawing = false;
      draw(state);
    });
  });
  connect(runner, form);
  // For whoever drives the page: what it has found so far.
  Object.assign(globalThis, { pulseDemo: { state: () => runner.state } });
  void runner.load(runner.state.settings);
}

main();

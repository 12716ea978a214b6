// <reveille-timer timer-id="timer_…">: one timer as a row of a chat, alive. Attributes: `server` (address, the one
// that this file is from unless given), `token`, `tool` (which call the row stands for; `read_timer` shows all fields), `readonly`, `pause-for`.

import { now as clockNow, onTick } from '../lib/clock.js';
import { h, say } from '../lib/dom.js';
import { countdown, exact, instant, length, statusName } from '../lib/format.js';
import { oneAtATime } from '../lib/load.js';
import { segment, server } from '../lib/server.js';
import { actions, awaited, condition, isLive, left as leftOf, purpose, schedule, seen, standby, waits } from '../lib/timer.js';
import { bar, setBar } from '../parts/bar.js';
import { WORDS } from '../parts/words.js';
import { sheets } from './sheet.js';

const TOOLS = {
  timer: 'Timer',
  read_timer: 'Read timer',
  stop_timer: 'Stop timer',
  cancel_timer: 'Cancel timer',
  pause_timer: 'Pause timer',
  resume_timer: 'Resume timer',
};

export class ReveilleTimer extends HTMLElement {
  static observedAttributes = ['timer-id', 'tool', 'readonly'];
  #timer = null;
  #undo = [];
  #parts = null;
  /// Given up for another timer: no answer is taken for that of another.
  #load = oneAtATime((signal) => this.#read(signal));

  connectedCallback() {
    this.#forget();
    this.#build();
    const [from, load] = [this.#server, () => this.#load.anew()];
    from.addEventListener('back', load);
    this.#undo = [
      () => from.removeEventListener('back', load),
      from.onEvent((entry) => entry.id === this.getAttribute('timer-id') && this.#load()),
      onTick((now) => this.#tick(now)),
    ];
    if (!this.#timer) this.#load();
  }

  disconnectedCallback() {
    this.#undo.forEach((undo) => undo());
    this.#undo = [];
  }

  attributeChangedCallback(name, old, value) {
    if (!this.isConnected || old === value) return;
    if (name === 'timer-id') this.#load.giveUp();
    this.#forget();
    this.#build();
    if (!this.#timer) this.#load();
  }

  /// What is known is another timer's by now, unless the page has set this one itself.
  #forget() {
    if (this.#timer?.timer_id !== this.getAttribute('timer-id')) this.#timer = null;
  }

  /// What the API says of a timer; set it to spare a request.
  get timer() {
    return this.#timer;
  }

  set timer(timer) {
    this.#timer = timer;
    if (timer) this.setAttribute('timer-id', timer.timer_id);
    if (this.#parts) this.#show();
  }

  get #server() {
    return server(this.getAttribute('server') ?? '', this.getAttribute('token') ?? '');
  }

  async #read(signal) {
    const id = this.getAttribute('timer-id');
    if (!id) return;
    try {
      const timer = await this.#server.get(`/api/timers/${segment(id)}`, {}, signal);
      if (!signal.aborted) this.timer = timer;
    } catch (error) {
      if (!signal.aborted) this.#complain(error);
    }
  }

  #build() {
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = sheets();
    const [tool, text, status, when, left, total, stand, buttons, table] =
      ['tool', 'purpose', 'status', 'when', 'left', 'total', 'stand', 'buttons', 'table'].map((name) => h(name === 'table' ? 'dl' : 'span', { class: name }));
    const progress = bar();
    const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
    const row = h('div', { class: 'row', role: 'group' },
      h('div', { class: 'head' }, tool, text, status), when, h('div', { class: 'times' }, left, total, stand), progress, table, buttons, problem);
    this.#parts = { row, tool, text, status, when, left, total, stand, progress, buttons, table, problem };
    root.replaceChildren(row);
    this.#show();
  }

  #show() {
    const timer = this.#timer;
    if (!timer) return;
    const { row, tool, text, status, when, buttons, table, problem } = this.#parts;
    problem.hidden = true;
    row.dataset.status = timer.status;
    row.setAttribute('aria-label', `Timer ${timer.timer_id}`);
    say(tool, TOOLS[this.getAttribute('tool')] ?? TOOLS.timer);
    say(text, purpose(timer));
    say(status, statusName(timer.status));
    const notes = [schedule(timer), waits(timer), condition(timer), seen(timer), timer.stop_reason && `because ${timer.stop_reason}`].filter(Boolean);
    say(when, notes.join('\n'));
    when.title = (timer.schedule?.next ?? []).join('\n');
    when.hidden = !notes.length;
    const allowed = this.hasAttribute('readonly') ? [] : actions(timer);
    buttons.replaceChildren(...allowed.map((action) =>
      h('button', { type: 'button', 'data-action': action, onclick: () => this.#act(action) }, WORDS[action].label)));
    buttons.hidden = !allowed.length;
    table.hidden = this.getAttribute('tool') !== 'read_timer';
    table.replaceChildren(...(table.hidden ? [] : fields(timer)));
    this.#tick(clockNow());
  }

  #tick(now) {
    const timer = this.#timer;
    if (!timer || !this.#parts) return;
    const { left, total, stand, progress } = this.#parts;
    const stands = standby(timer, now);
    say(left, isLive(timer) ? countdown(leftOf(timer, now)) : instant(timer.ends_at, now));
    const ended = !isLive(timer) && `ended, after ${length(timer.elapsed_time)}`;
    say(total, ended || (waits(timer) ? 'till quiet hours are over' : `of ${length(timer.total_duration)}`));
    say(stand, stands ? `standing by ${countdown(stands.left)}` : '');
    setBar(progress, timer, now);
  }

  async #act(action) {
    const body = action === 'pause' ? { pause_duration: this.getAttribute('pause-for') ?? '5m' } : {};
    const { timer_id: id } = this.#timer;
    try {
      await this.#server.post(`/api/timers/${segment(id)}/${action}`, body);
      await this.#load();
    } catch (error) {
      if (this.getAttribute('timer-id') === id) this.#complain(error);
    }
  }

  #complain(error) {
    const { problem } = this.#parts;
    say(problem, error.message);
    problem.hidden = false;
  }
}

/// Everything `read_timer` tells, as a table.
function fields(timer) {
  const rows = [
    ['timer', timer.timer_id],
    ['state', statusName(timer.status)],
    [timer.mission === undefined ? 'reason' : 'mission', purpose(timer)],
    ['total', length(timer.total_duration)],
    ['elapsed', length(timer.elapsed_time)],
    ['remaining', length(timer.remaining_time)],
    ['created', exact(timer.created_at)],
    ['last looked at', exact(timer.last_check_at)],
    ['paused until', timer.pause_until && exact(timer.pause_until)],
    ['when', schedule(timer)],
    ['waits', waits(timer)],
    ['until', awaited(timer)],
    ['met', timer.met === undefined ? '' : timer.met ? 'yes' : 'no'],
    ['seen', timer.seen],
    ['next', (timer.schedule?.next ?? []).join(', ')],
    ['why', timer.stop_reason],
  ];
  return rows.filter(([, value]) => value).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]);
}

// The look of the elements that other apps embed. It comes with them, touches nothing of the page around, and follows its
// colour scheme; `--reveille-*` properties of the page go over it.

const CSS = `
:host {
  --ink: var(--reveille-ink, light-dark(#1d1c1a, #ecebe8));
  --muted: var(--reveille-muted, light-dark(#645f58, #aaa7a0));
  --line: var(--reveille-line, light-dark(#e2ded6, #30333a));
  --surface: var(--reveille-surface, light-dark(#fffefc, #1b1d21));
  --track: light-dark(#ebe8e1, #2b2e34);
  --accent: var(--reveille-accent, light-dark(#a8420c, #f2a25c));
  --state: var(--muted);
  color-scheme: inherit;
  display: block;
  color: var(--ink);
  font-size: 14px;
  line-height: 1.45;
  font-variant-numeric: tabular-nums;
}
:host([hidden]) { display: none; }
[data-status=running] { --state: light-dark(#0f6b4f, #7fd8b5); }
[data-status=running_background] { --state: light-dark(#1f5a96, #8fc1f4); }
[data-status=paused] { --state: light-dark(#7f5200, #f0c36a); }
.row { display: grid; gap: 8px; padding: 12px 14px; border: 1px solid var(--line); border-radius: 12px; background: var(--surface); }
.head { display: flex; align-items: baseline; gap: 8px; flex-wrap: wrap; }
.tool { color: var(--muted); font-size: 12px; letter-spacing: .02em; }
.purpose { flex: 1 1 12ch; font-weight: 550; overflow-wrap: anywhere; white-space: pre-wrap; }
.status { color: var(--state); font-size: 12px; font-weight: 600; }
.when { color: var(--muted); font-size: 13px; overflow-wrap: anywhere; white-space: pre-wrap; }
.when[hidden], .buttons[hidden], dl[hidden] { display: none; }
.times { display: flex; gap: 12px; align-items: baseline; color: var(--muted); font-size: 13px; }
.left { color: var(--ink); font-size: 20px; font-weight: 600; letter-spacing: -.01em; }
.bar { position: relative; height: 8px; border-radius: 4px; background: var(--track); overflow: hidden; }
.bar i { position: absolute; inset-block: 0; border-radius: 4px; }
.bar :is(.bar-standby, .bar-standby-fill) { inset-block: 2px; border-radius: 2px; background: light-dark(#ef8a3c, #ffb978); }
.bar-fill { left: 0; width: var(--done); background: var(--state); }
.bar-standby { left: var(--from); width: calc(var(--to) - var(--from)); opacity: .45; }
.bar-standby-fill { left: var(--from); width: calc(var(--at) - var(--from)); }
.bar:not([data-standby]) :is(.bar-standby, .bar-standby-fill) { display: none; }
[data-status=completed] .bar-fill, [data-status=stopped] .bar-fill { opacity: .4; }
.buttons { display: flex; gap: 6px; flex-wrap: wrap; }
button { font: inherit; font-size: 13px; padding: 3px 10px; border: 1px solid var(--line); border-radius: 7px; background: transparent; color: inherit; cursor: pointer; }
button:hover { border-color: var(--muted); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 14px; margin: 0; font-size: 13px; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
.message { display: grid; grid-template-columns: 3px 1fr; gap: 12px; padding: 2px 0; }
.message::before { content: ''; border-radius: 2px; background: var(--accent); }
[data-told]::before { background: var(--line); }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.note { color: var(--muted); font-size: 12px; margin: 0; }
.feed { display: grid; gap: 12px; }
.problem { color: light-dark(#a32020, #ff9d93); margin: 0; }
`;

let sheet = null;

export function sheets() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return [sheet];
}

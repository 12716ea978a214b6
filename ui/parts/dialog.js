// A question with fields, in a real dialog: the browser keeps the focus in it, and Escape closes it.

import { h, uniqueId } from '../lib/dom.js';

/// `fields`: `{name, label, hint, value, required, placeholder, options, only}`; `only: [name, …values]` shows a field for
/// these values of another alone, which stands before it and is shown itself. `submit` is given the values of what is shown; what it throws is shown, and the dialog
/// stays open.
export function ask({ title, intro, fields, confirm, danger, submit }) {
  const heading = uniqueId('dialog');
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const inputs = fields.map(field);
  const refresh = () => inputs.forEach(({ element, input, only: [name, ...values] = [] }) => {
    const other = inputs.find((one) => one.name === name);
    element.hidden = Boolean(other) && (other.element.hidden || !values.includes(other.input.value));
    input.disabled = element.hidden;
  });
  const opener = document.activeElement;
  const closed = () => {
    dialog.remove();
    // The button it came from may be gone by now; what it stood in is not.
    if (document.activeElement === document.body) opener?.parentElement?.closest('[tabindex]')?.focus({ preventScroll: true });
  };
  const button = h('button', { class: danger ? 'button danger' : 'button primary', type: 'submit' }, confirm);
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': heading, onclose: closed },
    h('form', { method: 'dialog', onsubmit: send, onchange: refresh },
      h('h2', { id: heading }, title),
      intro && h('p', { class: 'muted' }, intro),
      inputs.map(({ element }) => element),
      problem,
      h('div', { class: 'dialog-buttons' },
        h('button', { class: 'button', type: 'button', onclick: () => dialog.close() }, 'Not now'), button)));
  async function send(event) {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await submit(Object.fromEntries(inputs.filter(({ element }) => !element.hidden).map(({ name, input }) => [name, input.value.trim()])));
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  }
  refresh();
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function field({ name, label, hint, value = '', required, placeholder, options, lines, only, type = 'text', min }) {
  const id = uniqueId('field');
  const shared = { id, name, required, 'aria-describedby': hint && `${id}-hint` };
  const input = options
    ? h('select', shared, options.map(([of, text]) => h('option', { value: of, selected: of === value }, text)))
    : h(lines ? 'textarea' : 'input', lines ? { ...shared, rows: lines, placeholder } : { ...shared, type, min, placeholder, autocomplete: 'off' });
  if (!options) input.value = value;
  const element = h('div', { class: 'field' },
    h('label', { for: id }, label), input, hint && h('p', { class: 'hint', id: `${id}-hint` }, hint));
  return { name, input, element, only };
}

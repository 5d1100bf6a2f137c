// Runs in a world of its own in every document: the page can't see the binding.
(() => {
  const tell = (what) => { try { globalThis.__beckon(JSON.stringify(what)); } catch { /* the binding is not there yet */ } };
  // What the page makes up is not a person's doing.
  const on = (name, run) => addEventListener(name, (event) => { if (event.isTrusted) run(event); }, { capture: true, passive: true });
  const cut = (text, most) => String(text ?? '').slice(0, most);

  /* A native select list is not in the frames of a screencast and can't be clicked; a base-select is part of the page. */
  const sheet = new CSSStyleSheet();
  const list = 'select:not([multiple]):not([size])';
  sheet.replaceSync(`${list},${list}::picker(select){appearance:base-select !important}`);
  const adopt = (root) => { if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet]; };
  adopt(document);

  /* ---- the pointer ---- */
  const typed = new Set(['text', 'search', 'url', 'tel', 'email', 'password', 'number']);
  const deepest = () => {
    let element = document.activeElement;
    while (element && element.shadowRoot && element.shadowRoot.activeElement) element = element.shadowRoot.activeElement;
    return element;
  };
  const editable = (element) => {
    if (!element) return false;
    if (element.isContentEditable || element.tagName === 'TEXTAREA') return true;
    return element.tagName === 'INPUT' && typed.has(element.type) && !element.readOnly;
  };
  let last = '';
  let cursor = 'default';
  const report = () => {
    const what = { kind: 'pointer', cursor, editable: editable(deepest()) };
    const text = cursor + what.editable;
    if (text !== last) { last = text; tell(what); }
  };
  const shape = (target) => {
    const css = getComputedStyle(target).cursor;
    const keyword = css.slice(css.lastIndexOf(',') + 1).trim();
    if (keyword !== 'auto') return keyword;
    return editable(target) ? 'text' : 'default';
  };
  const over = (event) => {
    const target = event.composedPath()[0];
    if (!(target instanceof Element)) return;
    // The document's sheets do not reach into a shadow.
    if (target.getRootNode() instanceof ShadowRoot && target.matches(list)) adopt(target.getRootNode());
    cursor = shape(target);
    report();
  };
  on('mousemove', over);
  on('pointerdown', over);
  on('focusin', report);
  // Which frame has the focus: it gets what is pasted.
  let focused = -1000;
  let focusing = 0;
  const focus = () => {
    focusing = 0;
    focused = performance.now();
    if (!/^(IFRAME|FRAME|OBJECT|EMBED)$/.test(document.activeElement?.tagName)) tell({ kind: 'focus' });
  };
  // At once, so that it is known when the click that did it is over; a page that moves the focus all the time is told of now and then.
  on('focusin', () => { if (performance.now() - focused > 20) focus(); else focusing ||= setTimeout(focus, 20); });
  // A frame of another process hears of its focus only when the browser does.
  on('pointerdown', (event) => { if (!/^(IFRAME|FRAME|OBJECT|EMBED)$/.test(event.target?.tagName)) { focused = performance.now(); tell({ kind: 'focus' }); } });
  on('focusout', () => setTimeout(report));

  /* ---- pickers: native ones are told, and answered by `pick` ---- */
  const kinds = new Set(['date', 'time', 'datetime-local', 'month', 'week', 'color']);
  let picker = null;
  let number = 0;
  let timer = 0;
  const native = (element) => element.tagName === 'INPUT' ? kinds.has(element.type) : getComputedStyle(element).appearance !== 'base-select';
  const opened = (roots) => {
    for (const root of roots) for (const element of root.querySelectorAll('select:open,input:open')) if (native(element)) return element;
    return null;
  };
  const label = (element) => cut(element.getAttribute('aria-label') || element.labels?.[0]?.innerText || element.name, 200).trim();
  const told = (element) => {
    const what = { id: number, kind: element.tagName === 'SELECT' ? 'select' : element.type, label: label(element), value: cut(element.value, 200) };
    if (what.kind === 'select') {
      what.value = String(element.selectedIndex);
      what.options = [...element.options].slice(0, 500).map((option) => ({
        label: cut(option.label, 120), group: cut(option.closest('optgroup')?.label, 120),
        disabled: option.disabled || Boolean(option.closest('optgroup')?.disabled),
      }));
    } else {
      for (const bound of ['min', 'max', 'step']) what[bound] = cut(element.getAttribute(bound), 40);
    }
    return what;
  };
  const look = (roots) => {
    const element = opened(roots);
    if (element === picker) return;
    picker = element;
    clearInterval(timer);
    if (!element) { tell({ kind: 'picker', picker: null }); return; }
    number += 1;
    tell({ kind: 'picker', picker: told(element) });
    // Nothing tells when it closes.
    timer = setInterval(() => { if (!element.isConnected || !element.matches(':open')) look([document, ...shadows([])]); }, 200);
  };
  const shadows = (path) => {
    const found = path.filter((node) => node instanceof ShadowRoot);
    for (let root = deepest()?.getRootNode(); root instanceof ShadowRoot; root = root.host.getRootNode()) found.push(root);
    return found;
  };
  // It opens a moment after what a person does, maybe after the page has asked its server something.
  let looks = [];
  const soon = (event) => {
    const path = event.composedPath();
    looks.forEach(clearTimeout);
    looks = [0, 50, 250, 1000, 2500, 5000].map((wait) => setTimeout(() => look([document, ...shadows(path)]), wait));
  };
  on('click', soon);
  on('pointerdown', soon);
  const opening = new Set([' ', 'Enter', 'F4', 'ArrowDown', 'ArrowUp']);
  on('keydown', (event) => { if (opening.has(event.key)) soon(event); });
  // A field without a place on the page has no picker. It is back before anything is drawn, and keeps the focus.
  const close = (element) => {
    const { style } = element;
    const [had, before] = [element.hasAttribute('style'), style.cssText];
    style.setProperty('display', 'none', 'important');
    element.getBoundingClientRect();
    if (had) style.cssText = before; else element.removeAttribute('style');
  };
  /** Sets the value of the picker that was told, if one is given, and closes it. */
  globalThis.__beckonPick = (id, value) => {
    const element = picker;
    if (!element || id !== number) return 'gone';
    let changed = false;
    if (value !== null) {
      const before = element.value;
      if (element.tagName === 'SELECT') {
        const option = element.options[Number(value)];
        if (!option || option.disabled) return 'refused';
        element.selectedIndex = option.index;
      } else {
        element.value = value;
        if (value !== '' && element.value === '') { element.value = before; return 'refused'; }
      }
      changed = element.value !== before;
    }
    close(element);
    if (changed) {
      element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
      element.dispatchEvent(new Event('change', { bubbles: true }));
    }
    look([document, ...shadows([])]);
    return 'closed';
  };

  /* ---- another program: the browser would ask in a window that nobody sees, and that takes all input away ---- */
  const inside = new Set(['http:', 'https:', 'about:', 'blob:', 'data:', 'filesystem:', 'javascript:', 'chrome-extension:', 'chrome-error:']);
  let outside = -Infinity;
  globalThis.navigation?.addEventListener('navigate', (event) => {
    const scheme = URL.parse(event.destination.url)?.protocol;
    if (!event.cancelable || !scheme || inside.has(scheme)) return;
    event.preventDefault();
    if (performance.now() - outside > 1000) { outside = performance.now(); tell({ kind: 'program', scheme: cut(scheme, 40) }); }
  });

  /* ---- the browser itself would leave fullscreen, but a person's Escape reaches only the page ---- */
  on('keydown', (event) => { if (event.key === 'Escape' && document.fullscreenElement) document.exitFullscreen().catch(() => {}); });
})();

// Runs in a world of its own in every document: the page can't see the binding.
(() => {
  const tell = (what) => { try { globalThis.__beckon(JSON.stringify(what)); } catch { /* the binding is not there yet */ } };
  // A native select list is not in the frames of a screencast and can't be clicked; a base-select is part of the page.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('select:not([multiple]):not([size]),select:not([multiple]):not([size])::picker(select){appearance:base-select}');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const typed = new Set(['text', 'search', 'url', 'tel', 'email', 'password', 'number']);
  const editable = (element) => {
    while (element && element.shadowRoot && element.shadowRoot.activeElement) element = element.shadowRoot.activeElement;
    if (!element) return false;
    if (element.isContentEditable || element.tagName === 'TEXTAREA') return true;
    return element.tagName === 'INPUT' && typed.has(element.type) && !element.readOnly;
  };
  let last = '';
  const report = (cursor) => {
    const what = { cursor, editable: editable(document.activeElement) };
    const text = cursor + what.editable;
    if (text !== last) { last = text; tell(what); }
  };
  let cursor = 'default';
  const shape = (target) => {
    const css = getComputedStyle(target).cursor;
    const keyword = css.slice(css.lastIndexOf(',') + 1).trim();
    if (keyword !== 'auto') return keyword;
    return editable(target) ? 'text' : 'default';
  };
  addEventListener('mousemove', (event) => {
    const target = event.composedPath()[0];
    if (target instanceof Element) { cursor = shape(target); report(cursor); }
  }, { capture: true, passive: true });
  // The browser itself would leave fullscreen, but a person's Escape reaches only the page.
  addEventListener('keydown', (event) => {
    if (event.isTrusted && event.key === 'Escape' && document.fullscreenElement) document.exitFullscreen().catch(() => {});
  }, true);
  addEventListener('focusin', () => report(cursor), true);
  addEventListener('focusout', () => setTimeout(() => report(cursor)), true);
})();

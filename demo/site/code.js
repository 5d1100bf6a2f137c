// The one-time code. Shop and phone need no server between them: both make the code of the present ten minutes.

const WINDOW = 600_000;

const ofWindow = (number) => {
  let hash = 2166136261;
  for (const letter of `harbour tea ${number}`) {
    hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  }
  return String(hash % 1_000_000).padStart(6, "0");
};

export const codeAt = (now) => ofWindow(Math.floor(now / WINDOW));

// A code is good for its own ten minutes and the next.
export const isGood = (code, now) => code === codeAt(now) || code === codeAt(now - WINDOW);

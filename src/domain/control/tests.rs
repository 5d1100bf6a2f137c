//! Sentence by sentence.

package containerlogs

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestWrittenLinesAreReadBack(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(dir, "main", 0)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 3*maxLine)
	if _, err := f.Stdout.WriteString("one\n" + long + "\nlast without an end"); err != nil {
		t.Fatal(err)
	}
	f.Started()
	f.Wait()

	read := func(options v1.PodLogOptions) string {
		var out bytes.Buffer
		if err := Read(context.Background(), Path(dir, "main", 0), &options, func() bool { return false }, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := read(v1.PodLogOptions{}), "one\n"+long+"\nlast without an end"; got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	if got := read(v1.PodLogOptions{Follow: true}); !strings.HasSuffix(got, "last without an end") {
		t.Errorf("a followed log of an ended container lacks its end: %d bytes", len(got))
	}
	if got := Tail(Path(dir, "main", 0), 80, 30); len(got) != 30 || !strings.HasSuffix(got, "x\n\nlast without an end") {
		t.Errorf("got %q", got)
	}
}

func TestOldLogsGo(t *testing.T) {
	dir := t.TempDir()
	for restarts := range int32(4) {
		f, err := Create(dir, "main", restarts)
		if err != nil {
			t.Fatal(err)
		}
		f.Started()
		f.Wait()
	}
	for restarts, want := range map[int32]bool{0: false, 1: false, 2: true, 3: true} {
		var out bytes.Buffer
		err := Read(context.Background(), Path(dir, "main", restarts), &v1.PodLogOptions{}, func() bool { return false }, &out)
		if (err == nil) != want {
			t.Errorf("log %d: %v", restarts, err)
		}
	}
}

func TestLogsAreBounded(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(dir, "main", 0)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 3 * maxSize / len(line) {
		if _, err := f.Stdout.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	f.Started()
	f.Wait()
	for _, path := range []string{Path(dir, "main", 0), Path(dir, "main", 0) + ".1"} {
		if info, err := os.Stat(path); err != nil || info.Size() > maxSize+maxLine {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// Package containerlogs keeps what containers write, in the format of the
// container runtime interface, so that the kubelet's own reader serves it.
package containerlogs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// maxLine is where runtimes split a line into parts.
const maxLine = 16 * 1024

// maxSize is the kubelet's default for one log file.
const maxSize = 10 * 1024 * 1024

// Path is the log of one run of a container.
func Path(dir, container string, restarts int32) string {
	return filepath.Join(dir, container, fmt.Sprintf("%d.log", restarts))
}

// File is the log of a running container.
type File struct {
	// Stdout and Stderr are for the container, to be closed by Started.
	Stdout, Stderr *os.File

	path    string
	readers sync.WaitGroup

	mu   sync.Mutex
	file *os.File
	size int
}

// Create begins the log of a run, and drops those before the previous one.
func Create(dir, container string, restarts int32) (*File, error) {
	path := Path(dir, container, restarts)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if restarts > 1 {
		old := Path(dir, container, restarts-2)
		os.Remove(old)
		os.Remove(old + ".1")
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file}
	for stream, end := range map[string]**os.File{"stdout": &f.Stdout, "stderr": &f.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		*end = w
		f.readers.Add(1)
		go f.read(stream, r)
	}
	return f, nil
}

// Started gives up the node's copies of the container's ends, so that the log
// ends when the container does.
func (f *File) Started() {
	f.Stdout.Close()
	f.Stderr.Close()
}

// Wait returns when all that the container wrote is in the file.
func (f *File) Wait() {
	f.readers.Wait()
	f.file.Close()
}

func (f *File) read(stream string, r *os.File) {
	defer f.readers.Done()
	defer r.Close()
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			f.write(stream, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (f *File) write(stream string, line []byte) {
	tag := "F"
	text, whole := strings.CutSuffix(string(line), "\n")
	if !whole {
		tag = "P"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size > maxSize {
		f.rotate()
	}
	n, _ := fmt.Fprintf(f.file, "%s %s %s %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, text)
	f.size += n
}

// rotate keeps one older part of the log. Who follows it goes on with the new
// file.
func (f *File) rotate() {
	f.size = 0
	if err := os.Rename(f.path, f.path+".1"); err != nil {
		return
	}
	file, err := os.Create(f.path)
	if err != nil {
		return
	}
	f.file.Close()
	f.file = file
}

// Tail is the end of a log as a termination message shows it.
func Tail(path string, maxLines, maxBytes int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	// Each line has a stamp in front of it.
	const stamp = 64
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-int64(maxBytes+stamp*maxLines)), io.SeekStart)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) > maxLines {
		lines = lines[len(lines)-maxLines:]
	}
	var text strings.Builder
	for _, line := range lines {
		parts := strings.SplitN(line, " ", 4)
		if len(parts) < 4 {
			// The first line may have lost its beginning.
			parts = []string{"", "", "F", line}
		}
		text.WriteString(parts[3])
		if parts[2] == "F" {
			text.WriteByte('\n')
		}
	}
	message := text.String()
	return message[max(0, len(message)-maxBytes):]
}

package podworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// imageConfigFile, in an image's directory, says what a container runs that
// names no command of its own. An image may do without.
const imageConfigFile = "config.json"

// imageConfig has the names that the OCI image specification gives these.
type imageConfig struct {
	Entrypoint []string
	Cmd        []string
}

// image finds the directory of an image, and what is said of it there.
func (w *worker) image(name string) (string, imageConfig, error) {
	var config imageConfig
	dir, ok := w.Images[name]
	if !ok {
		known := make([]string, 0, len(w.Images))
		for image := range w.Images {
			known = append(known, image)
		}
		sort.Strings(known)
		return "", config, &prepareError{reasonErrImagePull, fmt.Sprintf("image %q is not on this node, which has: %s", name, strings.Join(known, ", "))}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", config, &prepareError{reasonErrImagePull, fmt.Sprintf("image %q: %s is not a directory", name, dir)}
	}
	data, err := os.ReadFile(filepath.Join(dir, imageConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return dir, config, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return "", config, &prepareError{reasonErrImagePull, fmt.Sprintf("image %q: %s: %v", name, imageConfigFile, err)}
	}
	return dir, config, nil
}

// commandLine is a container with what its image says for what it leaves out,
// as runtimes fill it in: a command drops both the entry point and its
// arguments.
func commandLine(container *v1.Container, image imageConfig) *v1.Container {
	filled := *container
	if len(container.Command) == 0 {
		filled.Command = image.Entrypoint
		if len(container.Args) == 0 {
			filled.Args = image.Cmd
		}
	}
	return &filled
}

// everyAddress is that of all interfaces, before a port.
var everyAddress = regexp.MustCompile(`(^|[^0-9.])(0\.0\.0\.0|\[::\]):`)

// listenOnPodIP has a process listen on its pod's address where its arguments
// say all addresses: here those of all pods would be the same.
func listenOnPodIP(args []string, ip string) []string {
	for i, arg := range args {
		args[i] = everyAddress.ReplaceAllString(arg, "${1}"+ip+":")
	}
	return args
}

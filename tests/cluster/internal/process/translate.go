package process

import (
	"path/filepath"
	"sort"
	"strings"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// translate makes up for mounts that cannot be made: the paths below a mount
// point become paths of the host, wherever the container is told of them.
func translate(spec nodeexec.Spec) nodeexec.Spec {
	mounts := append([]nodeexec.Mount(nil), spec.Mounts...)
	sort.SliceStable(mounts, func(i, j int) bool { return len(mounts[i].Target) > len(mounts[j].Target) })
	each := func(values []string) []string {
		out := make([]string, len(values))
		for i, value := range values {
			out[i] = translatePaths(value, mounts)
		}
		return out
	}
	spec.Command, spec.Env, spec.Dir = each(spec.Command), each(spec.Env), translatePaths(spec.Dir, mounts)
	spec.Root, spec.Image, spec.Mounts, spec.Credentials = "", "", nil, nil
	return spec
}

// translatePaths replaces each mount point that stands in a value as a path or
// the beginning of one.
func translatePaths(value string, mounts []nodeexec.Mount) string {
	var out strings.Builder
	for at := 0; at < len(value); {
		if m, ok := mountAt(value, at, mounts); ok {
			out.WriteString(m.Source)
			at += len(filepath.Clean(m.Target))
			continue
		}
		out.WriteByte(value[at])
		at++
	}
	return out.String()
}

func mountAt(value string, at int, mounts []nodeexec.Mount) (nodeexec.Mount, bool) {
	if at > 0 && !strings.ContainsRune("=:, '\"", rune(value[at-1])) {
		return nodeexec.Mount{}, false
	}
	for _, m := range mounts {
		rest, ok := strings.CutPrefix(value[at:], filepath.Clean(m.Target))
		if ok && (rest == "" || strings.ContainsRune("/:, '\";", rune(rest[0]))) {
			return m, true
		}
	}
	return nodeexec.Mount{}, false
}

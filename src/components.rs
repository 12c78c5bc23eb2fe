//! Strongly connected components, by Tarjan's algorithm with a stack of its own.

/// The components that the roots lead to, each after those that it leads to. `edge` is the target of an edge of a node, by position.
pub(crate) fn components(
    count: usize,
    roots: impl IntoIterator<Item = usize>,
    edge: impl Fn(usize, usize) -> Option<usize>,
) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; count];
    let mut low = vec![0usize; count];
    let mut on_stack = vec![false; count];
    let (mut stack, mut found) = (Vec::new(), Vec::new());
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut next = 0;
    for root in roots {
        if number[root] != UNSEEN {
            continue;
        }
        path.push((root, 0));
        while let Some((node, mut at)) = path.pop() {
            if number[node] == UNSEEN {
                number[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            let mut descend = None;
            while let Some(target) = edge(node, at) {
                at += 1;
                if number[target] == UNSEEN {
                    descend = Some(target);
                    break;
                }
                if on_stack[target] {
                    low[node] = low[node].min(number[target]);
                }
            }
            if let Some(target) = descend {
                path.push((node, at));
                path.push((target, 0));
                continue;
            }
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == number[node] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                found.push(component);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_together_and_behind_their_targets() {
        let edges: [&[usize]; 5] = [&[1], &[2, 3], &[1], &[3], &[]];
        let found = components(5, [0, 4], |node, at| edges[node].get(at).copied());
        assert_eq!(found, [vec![3], vec![2, 1], vec![0], vec![4]]);
    }
}

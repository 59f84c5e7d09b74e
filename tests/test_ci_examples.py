"""The files of examples/ci: every step of the workflows runs, in a folder where they lie as the page says.

GitHub's own actions and `pip install` are not run; `gh`, which talks to GitHub, only writes down its arguments.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.readme_examples import FENCE

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "ci"
ACTION = ".github/actions/costcore"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PLACES = {
    "net.py": "net.py",
    "budget.toml": "budget.toml",
    "github.yml": ".github/workflows/cost.yml",
    "gitlab-ci.yml": ".gitlab-ci.yml",
    "pre-commit-config.yaml": ".pre-commit-config.yaml",
}
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> gh.txt
case "$*" in *--paginate*) cat comments.txt 2>/dev/null || true;; esac
"""

pytestmark = [
    pytest.mark.frontend("pytorch"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="the steps of workflows are bash"),
]


@pytest.fixture
def project(tmp_path):
    """A project with the files of examples/ci, each in its place, and a baseline."""
    for name, place in PLACES.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / name, tmp_path / place)
    shutil.copytree(ROOT / ACTION, tmp_path / ACTION)  # one folder to copy
    programs = {
        "costcore": f'#!/usr/bin/env bash\nexec {shlex.quote(sys.executable)} -m costcore "$@"\n',
        "gh": GH,
        "pip": '#!/usr/bin/env bash\nprintf "%s\\n" "$*" >> pip.txt\n',
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    done = shell("costcore check net.py:make --input 8x3x32x32 --budget budget.toml --update", tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def shell(script, folder, **variables):
    """Run a script as GitHub runs a step."""
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_REPOSITORY": "me/net",
        **variables,
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def evaluated(text, given):
    """Return a text with the values of its expressions ``${{ … }}``."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: given[match[1]], text)


def run_workflow(folder, with_action=None, event="pull_request"):
    """Run the steps of the workflow and of the action; return the finished processes by name of the step."""
    workflow = yaml.safe_load((folder / PLACES["github.yml"]).read_text())
    done = {}
    for step in workflow["jobs"]["cost"]["steps"]:
        if "run" in step:
            done[step["run"]] = shell(step["run"], folder)
        elif step["uses"].startswith("./"):
            action = yaml.safe_load((folder / step["uses"] / "action.yml").read_text())
            inputs = {name: each.get("default", "") for name, each in action["inputs"].items()}
            inputs |= {"token": "secret", **step["with"], **(with_action or {})}
            assert inputs.keys() == action["inputs"].keys()
            given = {f"inputs.{name}": value for name, value in inputs.items()}
            given["github.event.pull_request.number"] = "7"
            for inner in action["runs"]["steps"]:
                if "github.event_name == 'push'" in inner.get("if", "") and event != "push":
                    continue
                if "pull_request" in inner.get("if", "") and event != "pull_request":
                    continue
                env = {name: evaluated(value, given) for name, value in inner["env"].items()}
                done[inner["name"]] = shell(inner["run"], folder, **env)
    return done


def test_a_pull_request_within_its_budget_is_green_and_commented(project):
    done = run_workflow(project)
    assert [each.returncode for each in done.values()] == [0, 0, 0, 0]
    assert done["Check the budget"].stdout == "net.py:make: within budget.toml\n"
    summary = (project / "summary.md").read_text()
    assert summary.startswith("<!-- costcore diff -->\n**`baseline.json` → `net.py:make`: no change**\n")
    assert (project / "pip.txt").read_text().startswith("install costcore[torch]\n")
    asked, written = (project / "gh.txt").read_text().splitlines()
    assert asked.startswith("api --paginate repos/me/net/issues/7/comments --jq ")
    assert written == "api --method POST repos/me/net/issues/7/comments --field body=@costcore-comment.md"


def test_a_pull_request_over_its_budget_fails_at_the_line_of_its_model(project):
    net = project / "net.py"
    net.write_text(net.read_text().replace("16", "32"))
    (project / "comments.txt").write_text("41\n42\n")
    done = run_workflow(project)
    checked = done["Check the budget"]
    assert checked.returncode == 1
    # 2 × the channels: 8 × 32 × 32 × 32 × 27 of the convolution, and 8 × 32 × 10
    annotation, *log = checked.stdout.splitlines()
    assert not [line for line in log if line.startswith("::")]
    place, _, text = annotation.partition(",title=costcore::")
    assert place == "::error file=net.py,line=6"  # one annotation for one line of code
    assert text.endswith("%0Aand 3 more, which the log lists")
    assert "net.py:make: total: 7,080,448 MACs, limit 4,000,000, 3,080,448 over, 77.01 %" in log
    assert "| MACs | 3.54 M | 7.08 M | +3.54 M ×2.0000 |" in (project / "summary.md").read_text()
    changed = (project / "gh.txt").read_text().splitlines()[-1]
    assert changed == "api --method PATCH repos/me/net/issues/comments/41 --field body=@costcore-comment.md"


@pytest.mark.skipif(shutil.which("jq") is None, reason="gh has its own jq")
def test_a_comment_of_somebody_else_is_never_changed(project):
    """Anybody can write a comment that begins as that of costcore; gh filters the pages that GitHub sends with jq."""
    written = [("mallory", "<!-- costcore diff -->"), ("github-actions[bot]", "hello"), ("github-actions[bot]", None)]
    ours = ("github-actions[bot]", "<!-- costcore diff -->\n**a**")
    for pages, change in (
        ([written[:2]], "POST repos/me/net/issues/7/comments"),
        ([written[:2], [ours]], "PATCH repos/me/net/issues/comments/3"),
    ):
        at = 0
        with (project / "comments.json").open("w") as file:
            for page in pages:
                comments = [{"id": (at := at + 1), "user": {"login": who}, "body": body} for who, body in page]
                file.write(json.dumps(comments) + "\n")
        filtering = GH.replace("cat comments.txt 2>/dev/null || true", 'jq -r "${@: -1}" comments.json')
        (project / "bin" / "gh").write_text(filtering)
        done = run_workflow(project)
        assert done["Comment on the pull request"].returncode == 0, done["Comment on the pull request"].stderr
        changed = (project / "gh.txt").read_text().splitlines()[-1]
        assert changed == f"api --method {change} --field body=@costcore-comment.md"


def test_actions_are_pinned_and_keep_no_credentials():
    """A tag can be moved; a token in .git/config is read by whatever the pull request runs."""
    for path in (ROOT / ".github" / "workflows" / "ci.yml", EXAMPLES / "github.yml"):
        (job,) = yaml.safe_load(path.read_text())["jobs"].values()
        used = [step for step in job["steps"] if "uses" in step and not step["uses"].startswith("./")]
        assert used
        for step in used:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
            if "checkout" in step["uses"]:
                assert step["with"]["persist-credentials"] is False


def test_comments_of_this_repository_alone_are_written():
    """A pull request from a fork has a token that may not write."""
    steps = yaml.safe_load((ROOT / ACTION / "action.yml").read_text())["runs"]["steps"]
    (comment,) = (step for step in steps if step["name"] == "Comment on the pull request")
    assert "head.repo.full_name == github.repository" in comment["if"]
    assert all("!cancelled()" in step["if"] for step in steps[1:])  # after a failed check too


def test_the_pipeline_of_gitlab_runs(project):
    job = yaml.safe_load((project / PLACES["gitlab-ci.yml"]).read_text())["cost"]
    done = shell("\n".join([*job["before_script"], *job["script"]]), project)
    assert (done.returncode, done.stdout) == (0, "net.py:make: within budget.toml\n"), done.stderr
    (artifact,) = job["artifacts"]["paths"]
    assert "No call was added, removed or changed." in (project / artifact).read_text()


def test_the_hook_of_pre_commit_runs(project):
    (hook,) = yaml.safe_load((project / PLACES["pre-commit-config.yaml"]).read_text())["repos"][0]["hooks"]
    assert shell(hook["entry"], project).returncode == 0
    matched = [name for name in ("net.py", "budget.toml", "README.md") if re.search(hook["files"], name)]
    assert matched == ["net.py", "budget.toml"]


def test_a_push_commits_the_badge(project):
    """The branch has a badge already, whose hash GitHub asks for."""
    gh = project / "bin" / "gh"
    gh.write_text(GH + 'case "$*" in *--jq*.sha*) echo 1234;; esac\n')
    done = run_workflow(project, {"badge": "badge.svg", "badge-branch": "badges"}, event="push")
    assert [each.returncode for each in done.values()] == [0, 0, 0, 0], done
    assert "3.54 MMACs · 650 parameters" in (project / "badge.svg").read_text()
    asked, written = (project / "gh.txt").read_text().splitlines()
    assert asked == "api repos/me/net/contents/badge.svg?ref=badges --jq .sha"
    assert re.fullmatch(
        "api --method PUT repos/me/net/contents/badge.svg --field branch=badges --field message=Update badge.svg "
        "--field content=[A-Za-z0-9+/=]+ --field sha=1234",
        written,
    )


def test_the_hook_of_this_repository_checks_a_model(project):
    """pre-commit appends the arguments of the user's configuration to the entry."""
    (hook,) = yaml.safe_load(HOOKS.read_text())
    arguments = "net.py:make --input 8x3x32x32 --budget budget.toml"
    assert shell(f"{hook['entry']} {arguments}", project).returncode == 0
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("costcore", "python", False)
    matched = [name for name in ("net.py", "budget.toml", "net.onnx", "README.md") if re.search(hook["files"], name)]
    assert matched == ["net.py", "budget.toml", "net.onnx"]


def test_the_page_shows_the_files():
    text = (ROOT / "docs" / "pull_requests.md").read_text(encoding="utf-8")
    shown = [block["body"] for block in FENCE.finditer(text) if block["language"] in ("yaml", "toml")]
    assert shown[:2] == [(EXAMPLES / name).read_text() for name in ("budget.toml", "github.yml")]
    (given,) = yaml.safe_load(shown[2])["repos"][0]["hooks"]
    assert given["id"] == yaml.safe_load(HOOKS.read_text())[0]["id"]
    for name, place in PLACES.items():
        assert f"`{place}`" in text
        assert f"](../examples/ci/{name})" in text
    assert f"`{ACTION}/`" in text and f"](../{ACTION}/action.yml)" in text

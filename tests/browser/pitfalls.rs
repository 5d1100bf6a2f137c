//! The ten things most likely to be got wrong when a person takes over a browser. Each is named by what must hold.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON};
use crate::site::Site;
use crate::viewer::{Viewer, key, press};
use beckon::driver::{DialogInfo, LiveEvent};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

fn dialog(event: &LiveEvent) -> Option<&DialogInfo> {
    match event {
        LiveEvent::Dialog { dialog } => dialog.as_ref(),
        _ => None,
    }
}

async fn sees_dialog(viewer: &mut Viewer, message: &str) -> u32 {
    let event = viewer.event(message, |event| dialog(event).is_some_and(|dialog| dialog.message == message)).await;
    dialog(&event).unwrap().id
}

/// 1 and 2: a dialog costs nobody the tab, outlives every viewer and gateway, and is still answered.
#[tokio::test]
async fn p1_an_open_dialog_keeps_its_tab_across_reconnects() {
    let page = "<button onclick='say(`answer ` + confirm(`Pay now?`))'>Pay</button>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut before = browser.viewer().await;
        let reply = browser.click("Pay").await;
        assert_eq!(reply.dialog.map(|dialog| (dialog.kind, dialog.message)), Some(("confirm".to_owned(), "Pay now?".to_owned())));
        sees_dialog(&mut before, "Pay now?").await;
        drop(before);
        assert_eq!(browser.refused("screenshot", &json!({})).await, "DIALOG_OPEN", "at once, not after a wait");
        let mut late = browser.viewer().await;
        let id = sees_dialog(&mut late, "Pay now?").await;
        let state = browser.state().await;
        assert_eq!((state.tabs.len(), state.dialog.map(|dialog| dialog.message)), (1, Some("Pay now?".to_owned())), "{flavour}");
        let grant = browser.hold("ann").await;
        late.say(&json!({ "type": "dialog", "lease": grant.lease, "id": id, "accept": true, "text": null }).to_string()).await;
        site.told_that("answer true").await;
        browser.until("it is gone", |state| state.dialog.is_none()).await;
    }
}

/// 2: the keeper is there before the page's first script, in popups too.
#[tokio::test]
async fn p2_a_dialog_at_the_first_script_of_a_popup_is_kept() {
    let opener = "<button onclick='window.open(`/popup`)'>Open</button>";
    let popup = "<script>say('name ' + prompt('Your name?', 'nobody'))</script>";
    let site = Site::start(&[("/", opener), ("/popup", popup)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        browser.click("Open").await;
        let state = browser.until("the dialog", |state| state.dialog.is_some()).await;
        let open = state.dialog.unwrap();
        assert_eq!((open.kind.as_str(), open.default_value.as_str()), ("prompt", "nobody"), "{flavour}");
        browser.tool("handle_dialog", &json!({ "accept": true, "text": "Ann" })).await.unwrap();
        site.told_that("name Ann").await;
    }
}

/// 3: a select list is in the frames and is chosen from by mouse.
#[tokio::test]
async fn p3_a_select_list_is_seen_and_clicked() {
    let page = "<body style='margin:0'><select style='position:absolute;left:20px;top:20px;width:200px;height:40px'>
        <option>Small<option>Medium<option>Large</select><script>
        const list = document.querySelector('select');
        list.addEventListener('change', () => say('chosen ' + list.value));
        const wait = () => { const box = list.options[2].getBoundingClientRect();
          if (box.height > 0) say('option ' + (box.left + box.width / 2) + ' ' + (box.top + box.height / 2)); else requestAnimationFrame(wait); };
        requestAnimationFrame(wait);</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let (.., closed) = viewer.frame(SOON).await.unwrap();
        let grant = browser.hold("ann").await;
        viewer.input(&grant.lease, press(100.0, 40.0)).await;
        site.until("the list is open", |told| told.iter().any(|told| told.starts_with("option "))).await;
        while viewer.frame(SOON).await.unwrap_or_else(|| panic!("{flavour}: the list is not in the picture")).2 == closed {}
        let place = site.told().iter().find_map(|told| told.strip_prefix("option ").map(str::to_owned)).unwrap();
        let (x, y) = place.split_once(' ').unwrap();
        viewer.input(&grant.lease, press(x.parse().unwrap(), y.parse().unwrap())).await;
        site.told_that("chosen Large").await;
    }
}

const STEADY: &str = "<script>
const tell = () => say(`size ${innerWidth}x${innerHeight} ${document.visibilityState} ${document.hasFocus()}`);
addEventListener('resize', tell); addEventListener('blur', tell); document.addEventListener('visibilitychange', tell); tell();
</script><h1>steady</h1><button onclick='tell()'>Tell</button>";

/// 4: a viewer that comes or goes changes nothing of the agent's page; a resize is real and everybody's.
#[tokio::test]
async fn p4_viewers_come_and_go_without_the_page_noticing() {
    let site = Site::start(&[("/", STEADY)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        browser.resize(900, 600).await;
        site.told_that("size 900x600 visible true").await;
        site.forget();
        let mut stays = browser.viewer().await;
        let mut leaves = browser.viewer().await;
        for viewer in [&mut stays, &mut leaves] {
            let (width, height, _) = viewer.frame(SOON).await.unwrap();
            assert_eq!((width, height), (900, 600), "{flavour}");
        }
        drop(leaves);
        browser.click("Tell").await;
        site.told_that("size 900x600 visible true").await;
        assert_eq!(site.told().len(), 1, "{flavour}: the page noticed {:?}", site.told());
        assert!(stays.frame(SOON).await.is_some(), "{flavour}: the click shows");
    }
}

/// 5: a popup does not freeze the tab that opened it; both are shown, and both take text.
#[tokio::test]
async fn p5_popup_and_opener_both_live() {
    let alive = "<input id=box oninput='say(document.title + ` ` + this.value)'><script>
        let n = 0; const tick = () => { n += 1; if (n % 20 === 0) say(document.title + ' ticks'); requestAnimationFrame(tick); }; tick();</script>";
    let opener = format!("<title>opener</title>{alive}<button onclick='window.open(`/popup`)'>Open</button>");
    let popup = format!("<title>popup</title>{alive}");
    let site = Site::start(&[("/", &opener), ("/popup", &popup)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        browser.click("Open").await;
        let state = browser.until("the popup is shown", |state| state.page.title == "popup").await;
        assert_eq!(state.tabs.len(), 2);
        site.forget();
        for title in ["opener ticks", "popup ticks"] {
            site.told_that(title).await;
        }
        assert!(viewer.frame(SOON).await.is_some(), "{flavour}: the popup is shown");
        let opener = state.tabs.iter().find(|tab| !tab.active).unwrap().id.clone();
        let grant = browser.hold("ann").await;
        viewer.say(&json!({ "type": "tab", "lease": grant.lease, "id": opener }).to_string()).await;
        browser.until("the opener is shown", |state| state.page.title == "opener").await;
        assert!(viewer.frame(SOON).await.is_some(), "{flavour}: the opener is shown");
        browser.release(&json!({ "lease": grant.lease })).await.unwrap();
        let box_ = browser.find("textbox").await;
        browser.tool("type", &json!({ "ref": box_, "text": "hi" })).await.unwrap();
        site.told_that("opener hi").await;
    }
}

/// 6: nothing waits for the page's reply: a click behind 300 moves is there at once, and the page saw far fewer moves.
#[tokio::test]
async fn p6_a_click_behind_300_moves_arrives_at_once() {
    let page = "<body style='margin:0;height:700px'><script>let moves = 0; addEventListener('mousemove', () => moves += 1);
        addEventListener('mouseup', () => say('click after ' + moves)); say('ready');</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let grant = browser.hold("ann").await;
    let moves: Vec<Value> = (0..60).map(|i| json!({ "kind": "move", "x": 10 + i, "y": 20, "buttons": 0, "modifiers": 0 })).collect();
    for _ in 0..5 {
        viewer.input(&grant.lease, json!(moves)).await;
    }
    viewer.input(&grant.lease, press(50.0, 50.0)).await;
    site.until("the click", |told| told.iter().any(|told| told.starts_with("click after "))).await;
    // If each were waited for, the page would have seen them all.
    let told = site.told();
    let seen: u32 = told.iter().find_map(|told| told.strip_prefix("click after ")).unwrap().parse().unwrap();
    assert!((1..150).contains(&seen), "{seen} moves");
    assert!(!viewer.was_refused());
}

/// 7: characters of AltGr, shortcuts of Command, compositions once, nothing left held.
#[tokio::test]
async fn p7_keyboards_of_people() {
    let page = "<input id=box autofocus><script>
        const tell = (what) => say(what + ' [' + box.value + ']');
        box.addEventListener('input', () => tell('input')); box.addEventListener('paste', () => say('paste'));
        box.addEventListener('compositionend', (e) => say('composed ' + e.data));
        addEventListener('keydown', (e) => { if (e.key === 'a' && e.ctrlKey) say('select all'); });
        box.focus(); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        site.told_that("ready").await;
        let mut viewer = browser.viewer().await;
        let grant = browser.hold("ann").await;
        viewer.input(&grant.lease, key("€", "KeyE", 3, true)).await;
        viewer.input(&grant.lease, key("@", "KeyQ", 3, false)).await;
        site.told_that("input [€@]").await;
        // The key of an input method comes as well; it must not type a second time.
        viewer.input(&grant.lease, key("Process", "KeyK", 0, false)).await;
        viewer.input(&grant.lease, json!([{ "kind": "compose", "text": "か" }, { "kind": "text", "text": "か" }])).await;
        site.told_that("composed か").await;
        site.told_that("input [€@か]").await;
        viewer.input(&grant.lease, key("a", "KeyA", 4, false)).await;
        site.told_that("select all").await;
        viewer.input(&grant.lease, key("Backspace", "Backspace", 0, false)).await;
        site.told_that("input []").await;
    }
}

/// 8: a page that moves by itself is shown slowly when nobody acts, at full speed when somebody does, and not at all when
/// nobody looks.
#[tokio::test]
async fn p8_a_moving_page_that_nobody_touches_costs_little() {
    let page = "<div id=b style='width:80px;height:80px;background:red;position:absolute'></div><script>
        let n = 0; const step = () => { n += 3; b.style.left = (n % 600) + 'px'; requestAnimationFrame(step); }; step();</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let shots = |shots: bool| browser.logged(&format!("\"message\":\"the screencast changes its pace\",\"shots\":{shots}"));
    let deadline = Instant::now() + SOON * 2;
    while shots(true) == 0 {
        assert!(Instant::now() < deadline, "it goes on at full speed");
        viewer.frame(Duration::from_millis(100)).await;
    }
    // What was drawn before and is still on its way does not count.
    while viewer.frame(Duration::from_millis(100)).await.is_some() {
        assert!(Instant::now() < deadline, "it goes on at full speed");
    }
    let calm = viewer.frames_in(Duration::from_secs(2)).await;
    // A shot every 150 ms at most, of two pictures at most: the second may be on its way when the cast is stopped. At full speed
    // it would be a hundred.
    assert!((1..=26).contains(&calm), "{calm} frames in 2 s");
    let grant = browser.hold("ann").await;
    viewer.input(&grant.lease, json!([{ "kind": "move", "x": 5, "y": 5, "buttons": 0, "modifiers": 0 }])).await;
    while shots(false) == 0 {
        assert!(Instant::now() < deadline + SOON, "who acts does not see everything");
        viewer.frame(Duration::from_millis(20)).await;
    }
    assert!(viewer.frame(SOON).await.is_some());
    viewer.say(r#"{"type":"visible","visible":false}"#).await;
    let deadline = Instant::now() + SOON;
    while browser.logged("the screencast ends") == 0 || viewer.frame(Duration::from_millis(300)).await.is_some() {
        assert!(Instant::now() < deadline, "it goes on with nobody looking");
    }
    viewer.say(r#"{"type":"visible","visible":true}"#).await;
    assert!(viewer.frame(SOON).await.is_some(), "and is there again");
}

/// 9: a viewer that takes nothing stalls nobody; one that comes to a still page has a picture; frames carry the page's size.
#[tokio::test]
async fn p9_a_stalled_viewer_stalls_nobody_and_a_late_one_sees_the_last_frame() {
    let page = "<h1>still</h1><button onclick='n.textContent = +n.textContent + 1'>More</button><b id=n>0</b>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut first = browser.viewer().await;
        let (.., before) = first.frame(SOON).await.unwrap();
        // Reads nothing, acknowledges nothing.
        let _stalled = browser.viewer().await;
        let button = browser.find("More").await;
        let mut last = before;
        for _ in 0..6 {
            browser.tool("click", &json!({ "ref": button })).await.unwrap();
            let (width, height, jpeg) = first.frame(SOON).await.unwrap_or_else(|| panic!("{flavour}: the view is frozen"));
            assert_eq!((width, height), (1280, 800));
            last = jpeg;
        }
        while let Some((.., jpeg)) = first.frame(Duration::from_millis(500)).await {
            last = jpeg;
        }
        let mut late = browser.viewer().await;
        let (.., mut shown) = late.frame(SOON).await.unwrap_or_else(|| panic!("{flavour}: a page that does not move has no picture"));
        let deadline = Instant::now() + SOON;
        // The newest one, which on a busy machine may come after the one that is taken for it here.
        while shown != last {
            assert!(Instant::now() < deadline, "{flavour}: another frame than everybody's");
            for (viewer, known) in [(&mut first, &mut last), (&mut late, &mut shown)] {
                if let Some((.., jpeg)) = viewer.frame(Duration::from_millis(100)).await {
                    *known = jpeg;
                }
            }
        }
    }
}

/// 9: who reads more slowly than the page moves misses frames. If they were kept, they would fill the memory, and show the past.
#[tokio::test]
async fn p9_frames_that_a_viewer_does_not_read_are_kept_nowhere() {
    // Bytes that are drawn, that the driver may hold more than before, and that the two ends of the connection may.
    const DRAWN: usize = 64 << 20;
    const KEPT: u64 = 24 << 20;
    const ON_THE_WAY: usize = 20 << 20;
    // No two pictures are alike, and none of them gets smaller.
    let page = "<body style='margin:0'><canvas id=c width=1280 height=800 style='display:block'></canvas><script>
        const noise = new OffscreenCanvas(1600, 1000), brush = noise.getContext('2d'), dots = brush.createImageData(1600, 1000);
        const bits = new Uint32Array(dots.data.buffer); let n = 1;
        for (let i = 0; i < bits.length; i += 1) { n ^= n << 13; n ^= n >>> 17; n ^= n << 5; bits[i] = n | 0xff000000; }
        brush.putImageData(dots, 0, 0); const screen = c.getContext('2d');
        const draw = () => { screen.drawImage(noise, -Math.random() * 320 | 0, -Math.random() * 200 | 0); requestAnimationFrame(draw); }; draw();
        </script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut reads = browser.viewer().await;
    // What a few frames need is needed for good.
    while reads.numbered(SOON).await.unwrap().0 < 5 {}
    let mut slow = browser.viewer().await;
    slow.numbered(SOON).await.unwrap();
    let before = browser.resident();
    let (mut drawn, mut newest, mut most, mut read) = (0, 0, before, Instant::now());
    while drawn < DRAWN {
        let (number, bytes) = reads.numbered(SOON).await.unwrap_or_else(|| panic!("the view is frozen after {drawn} bytes"));
        (drawn, newest, most) = (drawn + bytes, number, most.max(browser.resident()));
        // One that takes nothing at all is given up.
        if read.elapsed() > Duration::from_secs(5) {
            slow.numbered(SOON).await.unwrap();
            read = Instant::now();
        }
    }
    assert!(most < before + KEPT, "the driver held {} MiB, and then {}", before >> 20, most >> 20);
    let mut past = 0;
    loop {
        let (number, bytes) = slow.numbered(SOON).await.unwrap();
        if number >= newest {
            break;
        }
        past += bytes;
        assert!(past < ON_THE_WAY, "it is shown the past: {number} instead of {newest}");
    }
}

/// 10: Chromium's own sandbox is on, and there is no port: nobody but the driver speaks to it.
#[tokio::test]
async fn p10_the_sandbox_is_on_and_no_port_is_open() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let state = browser.state().await;
        assert_eq!((state.sandbox.as_str(), state.sandbox_message), ("Native", None), "{flavour}");
        let processes = browser.processes();
        for bad in ["--no-sandbox", "--remote-debugging-port", "--remote-debugging-address", "--remote-allow-origins"] {
            assert!(
                !processes.iter().any(|(_, line)| line.contains(&format!("{bad} ")) || line.contains(&format!("{bad}="))),
                "{flavour} {bad}"
            );
        }
        let user_namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
        let ours = user_namespace(browser.pid());
        for pid in browser.renderers() {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"])), "{flavour}: a renderer without seccomp");
            assert_ne!(user_namespace(pid), ours, "{flavour}: a renderer in our user namespace");
        }
        let listening = listening_sockets();
        for (pid, line) in browser.processes() {
            let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            for link in open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()) {
                assert!(!listening.contains(&link.to_string_lossy().into_owned()), "{flavour} listens: {line}");
            }
        }
        assert!(browser.address().ip().is_loopback());
    }
}

/// Every TCP socket that listens, as descriptors name it.
fn listening_sockets() -> HashSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let listening = lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|fields| fields.get(3) == Some(&"0A"));
    let found: HashSet<String> = listening.map(|fields| format!("socket:[{}]", fields[9])).collect();
    assert!(!found.is_empty(), "the driver itself listens");
    found
}

/// 10: addresses that read the pod's files or the browser itself are refused.
#[tokio::test]
async fn p10_the_pods_files_are_no_page() {
    let browser = Browser::start(SHELL).await;
    for url in ["file:///etc/passwd", "chrome://version", "view-source:http://127.0.0.1/", "javascript:1", "data:text/html,x"] {
        assert_eq!(browser.refused("navigate", &json!({ "url": url })).await, "INVALID_ARGUMENT", "{url}");
    }
    assert_eq!(browser.state().await.page.origin, "about");
}

# Tells Cookhouse of a changelist that was submitted to a Perforce server. Runs on that server, as a change-commit trigger.
#
#   streamvc-trigger.ps1 -Url TRIGGER_URL -TokenFile TOKEN_FILE -Changelist CHANGELIST
#
# Install it once for each build setting with `"trigger": "push"`:
#
#   1. Make a token for the setting (POST /auth/tokens with `"scopes": ["trigger"]` and `"buildSettingIds"`), and put it alone
#      into a file that only the account of the Perforce service may read:
#        icacls C:\p4\cookhouse.token /inheritance:r /grant:r "NT AUTHORITY\SYSTEM:R"
#   2. As a super user, add one line to `p4 triggers`; the path says which submits count:
#
#        cookhouse change-commit //Games/main/... "powershell -NoProfile -ExecutionPolicy Bypass -File C:\p4\streamvc-trigger.ps1 -Url https://builds.studio.lan/v1/projects/PROJECT/build-settings/SETTING/trigger -TokenFile C:\p4\cookhouse.token -Changelist %changelist%"
#
# It never holds up or fails a submit: it answers at once, calls in the background, tries again for two minutes, and always ends
# with 0. What goes wrong is in TOKEN_FILE.log. A changelist that it could not tell of is found by Cookhouse within ten minutes.
# The token is in no argument, no environment variable and no log.
param(
    [string] $Url,
    [string] $TokenFile,
    [string] $Changelist,
    # Set by the script itself: this is the call in the background.
    [switch] $Background
)

$ErrorActionPreference = 'Stop'
# Nobody looks, and drawing it slows the call down.
$ProgressPreference = 'SilentlyContinue'

function Complain([string] $Text) {
    try {
        $log = "$TokenFile.log"
        # Nobody reads a log that grows without end.
        if ((Test-Path -LiteralPath $log) -and (Get-Item -LiteralPath $log).Length -gt 1MB) { Clear-Content -LiteralPath $log }
        $now = [DateTime]::UtcNow.ToString('yyyy-MM-ddTHH:mm:ssZ')
        Add-Content -LiteralPath $log -Value "$now changelist ${Changelist}: $Text"
    } catch { }
}

# One argument of a command line, however it is written. Backslashes before the last quotation mark would take it away.
function Quoted([string] $Text) { '"' + ($Text.Replace('"', '') -replace '(\\+)$', '$1$1') + '"' }

# Whether others than administrators and the accounts that are named one by one may read a file: everyone, anonymous, whoever
# signed in, users, guests.
function Test-Public([string] $Path) {
    $many = 'S-1-1-0', 'S-1-5-7', 'S-1-5-11', 'S-1-5-32-545', 'S-1-5-32-546'
    $read = [Security.AccessControl.FileSystemRights]::ReadData
    $rules = (Get-Acl -LiteralPath $Path).GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier])
    foreach ($rule in $rules) {
        if ($rule.AccessControlType -eq 'Allow' -and $many -contains $rule.IdentityReference.Value -and ($rule.FileSystemRights -band $read)) { return $true }
    }
    return $false
}

if ($Changelist -notmatch '^[0-9]{1,18}\z') { exit 0 }
if ($Url -notmatch '^https?://[^\s"]+\z') {
    Complain 'the first argument is no address'
    exit 0
}

if (-not $Background) {
    try {
        # Started through the shell of the system, it holds none of the pipes that the server waits for.
        $words = @('-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-File', (Quoted $PSCommandPath),
            '-Url', (Quoted $Url), '-TokenFile', (Quoted $TokenFile), '-Changelist', $Changelist, '-Background')
        $self = (Get-Process -Id $PID).Path
        Start-Process -FilePath $self -ArgumentList $words -WindowStyle Hidden | Out-Null
    } catch {
        Complain "no process could be started: $($_.Exception.Message)"
    }
    exit 0
}

try {
    if (-not (Test-Path -LiteralPath $TokenFile -PathType Leaf)) { throw "there is no file $TokenFile" }
    # Others could start builds with a token that they can read.
    if (Test-Public $TokenFile) { throw "$TokenFile can be read by others; make it private with the line of icacls above" }
    $token = ([IO.File]::ReadAllText($TokenFile)) -replace '\s', ''
    if ($token -notmatch '^[A-Za-z0-9_.~+/=-]+\z') { throw "$TokenFile holds no token" }
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
    # The key makes a repeated call harmless; settings that share a token have keys of their own.
    $setting = (($Url -replace '/trigger$', '') -split '/')[-1] -replace '[^A-Za-z0-9]', ''
    $setting = $setting.Substring(0, [Math]::Min(64, $setting.Length))
    $headers = @{ Authorization = "Bearer $token"; 'Idempotency-Key' = "changelist-$Changelist-$setting" }
    $body = '{"changelist":"' + $Changelist + '"}'
    $until = [DateTime]::UtcNow.AddMinutes(2)
    while ($true) {
        try {
            Invoke-WebRequest -Uri $Url -Method Post -Headers $headers -ContentType 'application/json' -Body $body `
                -TimeoutSec 20 -MaximumRedirection 0 -UseBasicParsing | Out-Null
            break
        } catch {
            $response = $_.Exception.Response
            $status = if ($response) { [int] $response.StatusCode } else { 0 }
            # What will not be better the next time.
            if (($status -ge 300 -and $status -lt 500 -and $status -notin 408, 429) -or [DateTime]::UtcNow -gt $until) { throw }
            Start-Sleep -Seconds 3
        }
    }
} catch {
    Complain $_.Exception.Message
}
exit 0
